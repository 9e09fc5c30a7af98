"""Packs one static program as a container image from scratch, in its /bin: image.py NAME PROGRAM OUT.tar (for `ctr images import`)."""
import hashlib
import io
import json
import os
import sys
import tarfile


def add(tar, path, content, mode=0o644):
    info = tarfile.TarInfo(path)
    info.size, info.mode = len(content), mode
    tar.addfile(info, io.BytesIO(content))


name, program, out = sys.argv[1:]
path = "bin/" + os.path.basename(program)
buffer = io.BytesIO()
with tarfile.open(fileobj=buffer, mode="w") as tar, open(program, "rb") as file:
    add(tar, path, file.read(), 0o755)
layer = buffer.getvalue()
config = json.dumps({
    "architecture": "amd64",
    "os": "linux",
    "config": {"Entrypoint": ["/" + path], "Env": ["PATH=/bin"]},
    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
}).encode()
digest = hashlib.sha256(config).hexdigest()
manifest = [{"Config": digest + ".json", "RepoTags": [name], "Layers": ["layer.tar"]}]
with tarfile.open(out, "w") as tar:
    add(tar, digest + ".json", config)
    add(tar, "layer.tar", layer)
    add(tar, "manifest.json", json.dumps(manifest).encode())
