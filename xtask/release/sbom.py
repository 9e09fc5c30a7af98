"""Writes a software bill of materials (CycloneDX 1.6) of the program for a target: sbom.py TARGET OUT.json

It names the crates that are compiled for the program, which `cargo tree` tells, with the check sums of Cargo.lock.
"""
import json
import re
import subprocess
import sys

target, out = sys.argv[1:]


def cargo(*words):
    return subprocess.run(["cargo", *words, "--locked"], check=True, capture_output=True, text=True).stdout


tree = cargo("tree", "--package", "webstone", "--target", target, "--edges", "normal,build", "--prefix", "none",
             "--format", "{p}\t{l}")
compiled = {}
for line in tree.splitlines():
    package, _, licence = line.removesuffix(" (*)").partition("\t")
    name, version, *_ = package.split(" ")
    compiled[(name, version.lstrip("v"))] = licence.removesuffix(" (*)")

lock = open("Cargo.lock", encoding="utf-8").read()
sums = {(name, version): found for name, version, found in
        re.findall(r'name = "(.+)"\nversion = "(.+)"\nsource = .+\nchecksum = "(.+)"', lock)}
nodes = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", target))
of_id = {package["id"]: (package["name"], package["version"]) for package in nodes["packages"]}


def reference(key):
    return "pkg:cargo/{}@{}".format(*key)


def component(key):
    item = {"type": "library", "bom-ref": reference(key), "name": key[0], "version": key[1], "purl": reference(key)}
    if compiled[key]:
        item["licenses"] = [{"expression": re.sub(" */ *", " OR ", compiled[key])}]
    if key in sums:
        item["hashes"] = [{"alg": "SHA-256", "content": sums[key]}]
    return item


program = next(key for key in compiled if key[0] == "webstone")
components = [component(key) for key in sorted(compiled) if key != program]
edges = [{"ref": reference(of_id[node["id"]]),
          "dependsOn": sorted({reference(of_id[dep]) for dep in node["dependencies"] if of_id[dep] in compiled})}
         for node in nodes["resolve"]["nodes"] if of_id[node["id"]] in compiled]
bom = {
    "bomFormat": "CycloneDX",
    "specVersion": "1.6",
    "version": 1,
    "metadata": {"component": {**component(program), "type": "application"},
                 "properties": [{"name": "cargo:target", "value": target}]},
    "components": components,
    "dependencies": edges,
}
with open(out, "w", encoding="utf-8") as file:
    json.dump(bom, file, indent=1)
    file.write("\n")
