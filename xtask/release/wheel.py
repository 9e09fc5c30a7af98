"""Packs the program as a wheel, so that pip puts it on the path: wheel.py VERSION TARGET PROGRAM OUT-DIRECTORY

The program is the one that the other packages hold. maturin, which pyproject.toml names for builds from source, would compile it again.
"""
import base64
import hashlib
import os
import sys
import time
import tomllib
import zipfile

version, target, program, out = sys.argv[1:]
machine = target.split("-")[0]
# Both: a static program runs with either C library.
tags = [f"py3-none-{platform}_{machine}" for platform in ("manylinux_2_17", "musllinux_1_1")]
name = f"webstone-{version}-py3-none-{'.'.join(tag.split('-')[2] for tag in tags)}.whl"
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
info = f"webstone-{version}.dist-info"
metadata = f"""Metadata-Version: 2.4
Name: {project["name"]}
Version: {version}
Summary: {project["description"]}
Keywords: {",".join(project["keywords"])}
License-Expression: {project["license"]}
{"".join(f"License-File: {file}{chr(10)}" for file in project["license-files"])}Requires-Python: {project["requires-python"]}
Description-Content-Type: text/markdown

"""
files = {
    f"webstone-{version}.data/scripts/webstone": open(program, "rb").read(),
    f"{info}/METADATA": (metadata + open(project["readme"], encoding="utf-8").read()).encode(),
    f"{info}/WHEEL": ("Wheel-Version: 1.0\nGenerator: webstone\nRoot-Is-Purelib: false\n"
                      + "".join(f"Tag: {tag}\n" for tag in tags)).encode(),
    **{f"{info}/licenses/{file}": open(file, "rb").read() for file in project["license-files"]},
}
record = f"{info}/RECORD"
rows = []
for path, content in files.items():
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    rows.append(f"{path},sha256={digest},{len(content)}\n")
files[record] = ("".join(rows) + f"{record},,\n").encode()
moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800))[:6]
with zipfile.ZipFile(os.path.join(out, name), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
    for path, content in files.items():
        item = zipfile.ZipInfo(path, moment)
        item.compress_type = zipfile.ZIP_DEFLATED
        item.external_attr = (0o100755 if path.endswith("/scripts/webstone") else 0o100644) << 16
        wheel.writestr(item, content)
