package main

// examples lists by command what its help shows; a test reads them as command lines.
var examples = map[string][]string{
	"inspect": {"qwb inspect model.onnx", "qwb inspect model.onnx --nodes --roofline"},
	"preprocess": {
		"qwb preprocess model.onnx --data images/ --preprocess imagenet-torch --dump inputs/"},
	"bind":   {"qwb bind silero_vad.onnx --input sr=16000 --shape input=1,576 --shape state=2,1,128 -o silero_16k.onnx"},
	"import": {"qwb import model.qdq.onnx", "qwb import trained.onnx --data images/ --preprocess imagenet-torch"},
	"calibrate": {
		"qwb calibrate model.onnx --data images/ --preprocess imagenet-torch --platform trt_int8",
		"qwb calibrate model.onnx --platform onnxruntime --observer kl        # the statistics are there: no data"},
	"sweep": {
		"qwb sweep model.onnx --data images/ --preprocess imagenet-torch --platforms trt_int8",
		"qwb sweep model.onnx --data images/ --labels labels.tsv --observers mse,kl --platforms trt_int8,onnxruntime --granularity channel,tensor",
		"qwb sweep model.onnx        # a hint from the statistics of an earlier calibration: no data"},
	"analyze": {
		"qwb analyze model.plan.json",
		"qwb analyze --layerwise --split --html report.html",
		"qwb analyze stories15M.bin --text lines.txt --bits 4"},
	"dispatch": {
		"qwb dispatch --fp32 type:Softmax,head",
		"qwb dispatch --auto --max-drop 0.5 --data images/ --labels labels.tsv",
		"qwb dispatch --auto --formats fp16,int4 --minimize bytes --max-nsr 0.01 --data images/"},
	"tune": {"qwb tune --method auto", "qwb tune model.plan.json --method bias,gptq --data images/ --budget 10m"},
	"doctor": {
		"qwb doctor model.onnx --data images/ --labels labels.tsv",
		"qwb doctor model.plan.json --data eval/ --labels eval.tsv        # also: does it overlap with the calibration data?",
		"qwb doctor model.onnx --platform onnxruntime                     # would the engine take this file as it is meant?"},
	"eval": {
		"qwb eval model.onnx --data images/ --preprocess imagenet-torch --labels labels.tsv",
		"qwb eval model.plan.json --data images/ --labels labels.tsv --mode int8 --max-drop 1",
		"qwb eval stories15M.bin --text lines.txt --bits 4 --group-size 32"},
	"verify": {"qwb verify model.plan.json", "qwb verify --profile ort --samples 32 --html verification.html"},
	"export": {
		"qwb export --platform trt_int8 -o model.int8.onnx",
		"qwb export model.plan.json --format c -o model.c",
		"qwb export stories15M.bin --format gguf --weights q4_0 -o stories15M.gguf"},
	"replace": {
		"qwb replace model.onnx SiLU=HardSwish --data images/ --labels labels.tsv --platform onnxruntime",
		"qwb replace model.onnx HardSwish=Relu6 --nodes 'blocks.0.*' -o relu6.onnx"},
	"run": {
		"qwb run model.onnx --input x=x.npy --output out/",
		"qwb run model.plan.json --data images/ --mode int8 --output out/",
	},
	"generate": {
		`qwb generate stories15M.bin --prompt "Once upon a time"`,
		`qwb generate stories15M.bin --prompt "The cat" --bits 4 --temperature 0.8 --top-p 0.9 --seed 1`},
	"set": {
		"qwb set fc activations=int16-sym-tensor",
		"qwb set /attn/ weights=int4-sym-g32 observer='percentile(0.999)'",
		"qwb set conv1:in0 scale=0.02 zero_point=0",
		"qwb set 'type:Softmax,!head' domain=fp32"},
	"unset":              {"qwb unset conv1", "qwb unset '#3'"},
	"plan show":          {"qwb plan show model.plan.json"},
	"plan log":           {"qwb plan log"},
	"plan explain":       {"qwb plan explain conv1"},
	"plan undo":          {"qwb plan undo"},
	"plan redo":          {"qwb plan redo"},
	"plan rederive":      {"qwb plan rederive"},
	"plan recipe":        {"qwb plan recipe -o recipe.yaml", "qwb calibrate other.onnx --data images/ --platform trt_int8 --recipe recipe.yaml"},
	"plan schema":        {"qwb plan schema recipe -o recipe.schema.json", "qwb plan schema plan"},
	"plan gc":            {"qwb plan gc"},
	"diff":               {"qwb diff before.plan.json after.plan.json", "qwb diff mine.onnx theirs.onnx --all"},
	"certify":            {"qwb certify model.plan.json --data images/ --labels labels.tsv --export model.int8.onnx -o certificate.json"},
	"verify-certificate": {"qwb verify-certificate certificate.json", "qwb verify-certificate certificate.json --root ~/project --data images/"},
	"gate": {
		"qwb gate certificate.json --max-drop 1 --max-nsr 0.01 --junit gate.xml --markdown gate.md",
		"qwb gate model.plan.json last-release.plan.json --data images/ --labels labels.tsv --max-drop 0.5"},
	"compare": {
		"qwb compare a.plan.json b.plan.json --data images/ --labels labels.tsv",
		"qwb compare model.plan.json engine-outputs/ --data images/"},
	"merge": {
		"qwb calibrate model.onnx --data images/ --shard 1/2 -o 1.part     # on one machine; 2/2 on another",
		"qwb merge 1.part 2.part -o model.stats"},
	"bench kernels":     {"qwb bench kernels --threads 1"},
	"bench model":       {"qwb bench model model.onnx --mode fp32,int8 --threads 1"},
	"bench calibration": {"qwb bench calibration model.onnx"},
	"bench layerwise":   {"qwb bench layerwise model.plan.json"},
	"bench generate":    {"qwb bench generate stories15M.bin"},
	"bench checkpoint":  {"qwb bench checkpoint --shape 15M -o made-up.bin"},
	"bench cuda":        {"qwb bench cuda"},
	"bench device":      {"qwb bench device --threads 1 -o this-machine.yaml"},
	"serve":             {"qwb serve model.plan.json", "qwb serve model.onnx --root . --root /data/images", "qwb serve --addr 127.0.0.1:8080 --no-browser        # on another machine: ssh -L 8080:127.0.0.1:8080 HOST"},
	"demo":              {"qwb demo -o qwb-demo"},
	"target list":       {"qwb target list"},
	"target show":       {"qwb target show onnxruntime"},
	"target check":      {"qwb target check mynpu.yaml"},
	"version":           {"qwb version --json"},
	"man":               {"qwb man /usr/local/share/man/man1"},
}
