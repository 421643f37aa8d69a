#!/usr/bin/env python3
"""Opens what qwb writes as evidence with the tools that it is for, one line each.

    pip install 'securesystemslib[crypto]==1.6.0' 'cyclonedx-python-lib[json-validation]==11.12.0' mlflow-skinny==3.17.2 jsonschema pyyaml
    python3 examples/evidence/opened.py QWB
"""
import json
import os
import subprocess
import sys
import tempfile


def qwb(*args, code=0):
    r = subprocess.run([QWB, *args], capture_output=True, text=True)
    if r.returncode != code:
        sys.exit(f"qwb {' '.join(args)}: exit code {r.returncode}, not {code}\n{r.stdout}{r.stderr}")
    return r.stdout


def envelope():
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner
    qwb("certify", PLAN, "--data", "data/eval", "--labels", "data/eval.tsv", "--export", FILE, "--form", "envelope", "-o", "c.json")
    for kind in ["ed25519", "ecdsa", "rsa"]:
        signer = getattr(CryptoSigner, "generate_" + kind)()
        e = Envelope.from_dict(json.load(open("c.json")))
        e.sign(signer)
        e.verify([signer.public_key], 1)
        json.dump(e.to_dict(), open("signed.json", "w"))
        public = signer.public_key.keyval["public"]
        if kind == "ed25519":
            public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
        open(kind + ".pem", "w").write(public)
        qwb("verify-certificate", "signed.json", "--key", kind + ".pem")
    qwb("verify-certificate", "signed.json", "--key", "ed25519.pem", code=3)
    return "DSSE envelope: signed by securesystemslib with Ed25519, ECDSA, RSA; qwb checks each, and refuses another key"


def boms():
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator
    open("sbom.json", "w").write(qwb("version", "--sbom"))
    qwb("export", PLAN, "--platform", "trt_int8", "-o", "again.onnx", "--card", "README.md", "--ml-bom", "again.cdx.json")
    for name in ["sbom.json", "again.cdx.json"]:
        error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(name).read())
        if error:
            sys.exit(f"{name}: {error}")
    return "SBOM and ML-BOM: valid by cyclonedx-python-lib, CycloneDX 1.6, strict"


def card():
    import yaml
    front = yaml.safe_load(open("README.md").read().split("---")[1])
    if front["base_model_relation"] != "quantized" or front["base_model"] != "glyphs.onnx":
        sys.exit(f"card: {front}")
    return f"model card: front matter read by PyYAML: {sorted(front)}"


def runs():
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow
    qwb("plan", "log", PLAN, "--mlflow", "mlruns")
    mlflow.set_tracking_uri("file:./mlruns")
    client = mlflow.MlflowClient()
    found = [r for e in client.search_experiments() if e.name == PLAN for r in client.search_runs([e.experiment_id])]
    if not any("eval.drop" in r.data.metrics for r in found):
        sys.exit("mlflow finds no run with a drop")
    return f"MLflow {mlflow.__version__}: {len(found)} runs with {sum(len(r.data.metrics) for r in found)} metrics"


def schemas():
    import jsonschema
    import yaml
    qwb("certify", PLAN, "--data", "data/eval", "--samples", "64", "-o", "plain.json")
    open("recipe.yaml", "w").write(qwb("plan", "recipe", PLAN))
    open("target.yaml", "w").write(qwb("target", "show", "onnxruntime"))
    open("preprocess.yaml", "w").write("resize: {shorter: 256}\ncenter_crop: 224\nscale: 0.003921569\nmean: [0.485, 0.456, 0.406]\n")
    for kind, name in {"plan": PLAN, "certificate": "plain.json", "recipe": "recipe.yaml", "target": "target.yaml",
                       "preprocess": "preprocess.yaml"}.items():
        schema = json.loads(qwb("plan", "schema", kind))
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(yaml.safe_load(open(name)), schema)
    return "JSON Schemas of plan, certificate, recipe, target, preprocess: valid, and take what qwb writes"


def sarif():
    qwb("doctor", FILE, "--platform", "onnxruntime", "--sarif", "doctor.sarif", code=3)
    qwb("gate", "plain.json", "--max-nsr", "1e-9", "--sarif", "gate.sarif", code=3)
    n = [len(json.load(open(f))["runs"][0]["results"]) for f in ["doctor.sarif", "gate.sarif"]]
    return f"SARIF: {n[0]} results of doctor, {n[1]} of gate"


QWB = os.path.abspath(sys.argv[1])
PLAN, FILE = "glyphs.plan.json", "glyphs.trt_int8.onnx"
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    qwb("demo")
    os.chdir("qwb-demo")
    for check in [envelope, boms, card, runs, schemas, sarif]:
        print(check())
