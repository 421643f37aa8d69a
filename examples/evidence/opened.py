#!/usr/bin/env python3
"""Opens what qwb writes as evidence with the tools that it is for, one line each.

    pip install 'securesystemslib[crypto]==1.6.0' 'cyclonedx-python-lib[json-validation]==11.12.0' mlflow-skinny==3.17.2 jsonschema pyyaml \\
        huggingface_hub in-toto-attestation==0.9.3 check-jsonschema
    python3 examples/evidence/opened.py QWB [SARIF-SCHEMA]

SARIF-SCHEMA is sarif-schema-2.1.0.json of OASIS, which no package has; without it SARIF is parsed alone.
"""
import hashlib
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


def statement():
    from google.protobuf import json_format
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.statement import Statement
    qwb("certify", PLAN, "--data", "data/eval", "--labels", "data/eval.tsv", "--export", FILE, "--form", "statement", "-o", "s.json")
    read = Statement.copy_from_pb(json_format.Parse(open("s.json").read(), statement_pb2.Statement()))
    read.validate()
    found = {r.name: r.digest["sha256"] for r in read.pb.subject}
    if found.get(FILE) != hashlib.sha256(open(FILE, "rb").read()).hexdigest():
        sys.exit(f"statement: {FILE} is no subject by its hash: {found}")
    return f"in-toto Statement v1: valid by in-toto-attestation, {len(found)} subjects, predicate {read.pb.predicate_type}"


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
    from huggingface_hub import ModelCard
    data = ModelCard.load("README.md").data
    if data.base_model != "glyphs.onnx" or data.to_dict()["base_model_relation"] != "quantized":
        sys.exit(f"card: {data}")
    return f"model card: ModelCard of huggingface_hub reads base_model {data.base_model}, relation quantized, tags {data.tags}"


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
    if SCHEMA:
        import jsonschema
        schema = json.load(open(SCHEMA))
        for f in ["doctor.sarif", "gate.sarif"]:
            jsonschema.validators.validator_for(schema)(schema).validate(json.load(open(f)))
    n = [len(json.load(open(f))["runs"][0]["results"]) for f in ["doctor.sarif", "gate.sarif"]]
    return f"SARIF{', valid by the schema of OASIS' if SCHEMA else ''}: {n[0]} results of doctor, {n[1]} of gate"


def pipelines():
    ci = os.path.join(os.path.dirname(SCRIPT), "..", "ci")
    for name, schema in {"action.yml": "vendor.github-actions", "gitlab.yml": "vendor.gitlab-ci"}.items():
        r = subprocess.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, os.path.join(ci, name)], capture_output=True,
                           text=True)
        if r.returncode:
            sys.exit(f"{name}: {r.stdout}{r.stderr}")
    return "pipelines: GitHub action and GitLab template valid by check-jsonschema's schemas"


QWB, SCRIPT = os.path.abspath(sys.argv[1]), os.path.abspath(__file__)
SCHEMA = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
PLAN, FILE = "glyphs.plan.json", "glyphs.trt_int8.onnx"
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    qwb("demo")
    os.chdir("qwb-demo")
    for check in [envelope, statement, boms, card, runs, schemas, sarif, pipelines]:
        print(check())
