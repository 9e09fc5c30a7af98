"""Writes a container image from scratch as an OCI layout: image.py VERSION OUT-DIRECTORY ARCHITECTURE=PROGRAM…

The image holds the program at /bin/webstone and nothing else. Records go to /work, its working directory.
"""
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile

version, out, *programs = sys.argv[1:]
created = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
os.makedirs(os.path.join(out, "blobs/sha256"))


def blob(content, kind, **more):
    digest = hashlib.sha256(content).hexdigest()
    with open(os.path.join(out, "blobs/sha256", digest), "wb") as file:
        file.write(content)
    return {"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + digest, "size": len(content), **more}


def packed(value):
    return json.dumps(value, separators=(",", ":")).encode()


def layer(program):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar, open(program, "rb") as file:
        # /tmp is where servers that webstone starts have their files, and /work where records go.
        for name, mode in (("bin", 0o755), ("tmp", 0o1777), ("work", 0o1777)):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode, folder.mtime = tarfile.DIRTYPE, mode, created
            tar.addfile(folder)
        content = file.read()
        info = tarfile.TarInfo("bin/webstone")
        info.size, info.mode, info.mtime = len(content), 0o755, created
        tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


manifests = []
for architecture, program in (item.split("=", 1) for item in programs):
    content = layer(program)
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {
            "Entrypoint": ["/bin/webstone"],
            "Env": ["PATH=/bin"],
            "WorkingDir": "/work",
            "Labels": {"org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "MIT OR Apache-2.0"},
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(content).hexdigest()]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(packed(config), "config.v1+json"),
        "layers": [blob(gzip.compress(content, 9, mtime=0), "layer.v1.tar+gzip")],
    }
    manifests.append(blob(packed(manifest), "manifest.v1+json", platform={"architecture": architecture, "os": "linux"}))
images = blob(packed({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests}),
              "index.v1+json", annotations={"org.opencontainers.image.ref.name": version, "io.containerd.image.name": "docker.io/library/webstone:" + version})
with open(os.path.join(out, "index.json"), "wb") as file:
    file.write(packed({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [images]}))
with open(os.path.join(out, "oci-layout"), "wb") as file:
    file.write(packed({"imageLayoutVersion": "1.0.0"}))
