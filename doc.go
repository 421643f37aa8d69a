// Package qwb is what qwb does, as a library: what the command line, a server, a page in the browser and a program share. A Project is
// a model with its plan and its statistics; its methods are the commands.
//
// The command line has flags, text, exit codes and a terminal, this package has the work: it takes options, returns results, warnings
// and errors, tells an Events what it is doing, and keeps nothing for the whole process, so that projects can be worked on side by side.
//
// # A model, quantized
//
// A program names the files and says what there is to work with, then does what a user would do:
//
//	p := &qwb.Project{
//		Model:   "model.onnx",
//		Plan:    "model.plan.json", // the statistics go to model.stats beside it
//		Catalog: qwb.Standard("1.0"),
//	}
//	data := qwb.DataOptions{Paths: []string{"images"}, Preprocess: "imagenet-torch"}
//	if _, _, err := p.Calibrate(ctx, qwb.CalibrateOptions{Platform: "onnxruntime", Data: data}); err != nil { ... }
//	report, warnings, err := p.Analyze(ctx, qwb.AnalyzeOptions{Config: analysis.Config{Outputs: true, Layerwise: true}})
//	...
//	r, warnings, err := p.Export(ctx, qwb.ExportOptions{Platform: "onnxruntime", Out: "model.int8.onnx"})
//
// Every method opens the files that it needs and closes them again: between two calls nothing is held but what lies in the store, and a
// plan that somebody else wrote meanwhile is a ChangedError. Analyze, Dispatch, Verify and Export take the plan's own data where none are
// named. Results are plain data with JSON names, the ones that the command line prints with --json; package reports makes text, HTML and
// pictures of them.
//
// # Files
//
// Files lie in a Store. OS has those of the operating system, Memory has them in memory, for tests and for programs without a file
// system: the package builds for js/wasm. What a method writes gets its names when all of it is there, or not at all. Language models, and
// models whose weights do not fit into one file, are files of the operating system.
//
// # What a program brings along
//
// Platforms, observers, operators and formats are values in a Catalog, beside those of Standard; nothing is registered. See the example
// Own, and examples/embed, a module that uses stable packages only.
//
// # Errors and warnings
//
// A UsageError says that what was asked for makes no sense. A CheckError says that a check did not hold: a verification that differs, a
// budget that cannot be met; the result is returned with it. FileError, NodeError, UnsupportedError and others say what could not be done,
// and where; Describe makes plain data of any error, with a kind out of a closed list. Warnings are values; those that a plan keeps stand
// in it too. Where the context is cancelled the error is context.Canceled; a calibration keeps what it has observed, and the same call goes
// on from there.
//
// Stable: what it exports keeps its meaning; see docs/library.md.
package qwb
