package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layers is the import direction: a package imports only packages of earlier lines. A path ending in /... stands for the
// package and everything below it; packages below one such entry may import each other. One ending in /* stands for the packages
// directly below it that no line names, which may not.
//
// Do not edit this list to make a build pass: move the code, or argue for the change in RATIONALE.md.
var layers = []string{
	"kernels/elementary internal/longtest internal/arrange",
	"kernels/qmath kernels/cpu graph/tensor internal/testrun internal/typecheck internal/file internal/flatbuffer internal/plain " +
		"internal/strictjson internal/strictyaml reports/layout reports/page internal/schematest",
	"kernels/ref internal/filetest internal/shard",
	"kernels",
	"kernels/kerneltest",
	"kernels/cuda/driver",
	"internal/drivertest",
	"kernels/cuda kernels/cuda/emulate kernels/cuda/gen",
	"internal/cudatest",
	"graph",
	"internal/graphtest internal/networktest graph/pattern",
	"graph/onnx/... graph/exec graph/language/checkpoint graph/tflite graph/pnnx",
	"graph/passes graph/grad graph/language/decode graph/device internal/kind graph/tflite/lift",
	"graph/language/decode/gpu",
	"quantizer/tqc quantizer/rewrite",
	"quantizer/target",
	"quantizer/decision internal/targettest",
	"quantizer/sim quantizer/plan quantizer/overlay observers",
	"quantizer/dispatch quantizer/passes",
	"quantizer quantizer/qdq",
	"quantizer/lower",
	"quantizer/lower/lowertest",
	"quantizer/program/steps",
	"quantizer/program",
	"quantizer/program/cpu quantizer/program/gpu",
	"calib/data/...",
	"calib",
	"calib/gpu",
	"internal/programtest internal/advisetest",
	"analysis/task analysis/assign",
	"analysis export calib/tune/round",
	"export/language/weights export/table analysis/language",
	"internal/weightstest internal/exporttest",
	"calib/tune calib/tune/texts analysis/verify analysis/advise analysis/tensors analysis/language/groupsums export/* export/cprogram/... " +
		"export/language/* reports",
	"export/qoperator",
	"export/trt",
	"export/all reports/png",
	"internal/work/fault",
	"internal/work/store",
	"internal/work/open",
	"internal/work/journal",
	"internal/work/samples",
	"internal/work/planning internal/work/language",
	"internal/work/measure internal/work/search internal/work/compare internal/work/doctor internal/work/verify internal/work/tune",
	"internal/work/recipe internal/work/export",
	"internal/work/calibrate internal/work/certify",
	"internal/work/bring internal/work/sweep internal/work/advise",
	"internal/work/replace",
	".",
	"internal/gpu",
	"internal/demo/... internal/bench internal/options",
	"internal/bench/cmd internal/workbench",
	"internal/workbench/server internal/workbench/pagetypes",
	"cmd/...",
}

// never lists what the order of the layers alone would allow: no package below the first may import one below the second.
var never = [][2]string{
	{"kernels", "graph"},          // kernels take slices
	{"quantizer", "observers"},    // policies do not know how ranges are measured
	{"quantizer", "calib"},        //
	{"observers", "graph/exec"},   // observers see tensors, not executions
	{"analysis", "calib"},         // a graph configured by any means can be analysed
	{"export", "observers"},       // exporters transcribe
	{"export", "calib"},           //
	{"export", "graph/exec"},      //
	{"reports", "graph"},          // reports render plain data
	{"reports", "kernels"},        //
	{"reports", "quantizer"},      //
	{"reports", "calib"},          //
	{"observers", "graph/passes"}, //
}

// core is what every program that uses package qwb is made of, a page in a browser too. A GPU is no part of it: what runs there comes to it
// by interfaces (program.Backend, calib.Device, decode.Device) from whoever has the GPU. Nor is what draws charts, which brings fonts
// along.
var core = []string{".", "export/all", "quantizer/program/cpu", "reports", "internal/workbench"}

// outside is what core never imports, however far away.
var outside = []string{"kernels/cuda", "graph/device", "graph/language/decode/gpu", "quantizer/program/gpu", "calib/gpu", "internal/gpu",
	"reports/png", "graph/onnx/onnxgo"}

// ofTheProcess are packages of the standard library that change or end the whole process: libraries leave it to cmd.
var ofTheProcess = []string{"flag", "log", "os/signal", "runtime/debug"}

// templates call methods by names that only the run knows: with one of them the linker keeps every exported method of every type, a tenth
// of the binary.
var templates = []string{"text/template", "html/template"}

// thirdParty says which packages may import which modules; everything else imports the standard library only.
var thirdParty = map[string][]string{
	"kernels/cpu":           {"golang.org/x/sys"},
	"graph/onnx":            {"google.golang.org/protobuf", "golang.org/x/sys"},
	"graph/tflite":          {"github.com/google/flatbuffers"},
	"export/espdl":          {"github.com/google/flatbuffers"},
	"graph/onnx/onnxgo":     {"github.com/owulveryck/onnx-go", "gonum.org/v1/gonum", "gorgonia.org/tensor"},
	"graph/language/decode": {"golang.org/x/text"},
	"calib/data":            {"golang.org/x/image"},
	"reports/png":           {"gonum.org/v1/plot", "golang.org/x/image"},
	"internal":              {"golang.org/x/image", "gonum.org/v1/gonum"},
	"kernels/kerneltest":    {"github.com/stretchr/testify"},
	"analysis":              {"gonum.org/v1/gonum"},

	"kernels/cuda/driver": {"github.com/ebitengine/purego", "golang.org/x/sys"},
	"internal/cudatest":   {"github.com/stretchr/testify"},

	"internal/drivertest": {"github.com/stretchr/testify", "github.com/ebitengine/purego"},

	"internal/graphtest": {"github.com/stretchr/testify"},
	"cmd": {"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/vbauerster/mpb", "golang.org/x/term",
		"golang.org/x/sys"},
	"cmd/qwb-beam":       {"github.com/apache/beam", "golang.org/x/sys"},
	"internal/bench/cmd": {"github.com/spf13/cobra"},
	"export/sidecar":     {"github.com/goccy/go-yaml"},
	"quantizer/decision": {"github.com/goccy/go-yaml"},

	"internal/strictyaml": {"github.com/goccy/go-yaml"},

	"quantizer/lower/lowertest": {"github.com/stretchr/testify"},
	"internal/programtest":      {"github.com/stretchr/testify"},
	"internal/exporttest":       {"github.com/stretchr/testify"},
	"internal/advisetest":       {"github.com/stretchr/testify"},

	"internal/weightstest": {"github.com/stretchr/testify"},
	"internal/filetest":    {"github.com/stretchr/testify"},
}

func TestImportDirection(t *testing.T) {
	sources := parseSources(t)
	require.Greater(t, len(sources), 10)
	for dir, files := range sources {
		if dir == "internal" {
			continue
		}
		from, ok := layerOf(dir)
		if !ok {
			t.Errorf("%s stands in no layer", dir)
			continue
		}
		for _, f := range files {
			for _, spec := range f.Imports {
				name, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				if why := judge(dir, from, name); why != "" {
					t.Errorf("%s imports %s: %s", dir, name, why)
				}
			}
		}
	}
}

// TestCoreIsWithoutGPU follows every import of core. It shows the way to what should not be there.
func TestCoreIsWithoutGPU(t *testing.T) {
	sources := parseSources(t)
	seen := map[string]bool{}
	var walk func(dir string, way []string)
	walk = func(dir string, way []string) {
		way = append(slices.Clip(way), dir)
		for _, o := range outside {
			if below(dir, o) {
				t.Errorf("core imports %s: %s", o, strings.Join(way, " > "))
				return
			}
		}
		if seen[dir] {
			return
		}
		seen[dir] = true
		require.NotEmpty(t, sources[dir], dir)
		for _, f := range sources[dir] {
			for _, spec := range f.Imports {
				name, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				if local, ok := strings.CutPrefix(name, "qwb/"); ok {
					walk(local, way)
				} else if name == "qwb" {
					walk(".", way)
				}
			}
		}
	}
	for _, dir := range core {
		walk(dir, nil)
	}
	require.Greater(t, len(seen), 40)
	for _, o := range outside {
		require.NotEmpty(t, sources[o], "%s is gone", o)
	}
}

func TestImportDirectionCatchesViolations(t *testing.T) {
	for _, c := range []struct{ from, imports string }{
		{"kernels/qmath", "qwb/graph/tensor"},
		{"kernels/ref", "qwb/kernels"},
		{"graph", "qwb/graph/exec"},
		{"quantizer", "qwb/observers"},
		{"observers", "qwb/calib"},
		{"analysis", "qwb/calib"},
		{"export/onnxqdq", "qwb/graph/exec"},
		{"reports", "qwb/graph"},
		{"calib", "qwb/cmd/qwb"},
		{"calib", "qwb"},
		{"reports", "qwb"},
		{"export/espdl", "qwb/export/tflite"},
		{".", "qwb/cmd/qwb"},
		{".", "runtime/debug"},
		{"internal/work/open", "runtime/debug"},
		{"internal/work/planning", "qwb"},
		{"internal/work/search", "qwb/internal/work/tune"},
		{"internal/work/open", "qwb/internal/work/planning"},
		{"internal/work/calibrate", "qwb/internal/work/sweep"},
		{".", "github.com/spf13/cobra"},
		{"graph/exec", "github.com/spf13/cobra"},
		{"quantizer", "qwb/nowhere"},
	} {
		from, ok := layerOf(c.from)
		require.True(t, ok, c.from)
		require.NotEmpty(t, judge(c.from, from, c.imports), "%s imports %s", c.from, c.imports)
	}
}

// judge returns what is wrong with package dir of layer from importing name, "" if nothing is.
func judge(dir string, from int, name string) string {
	local, isLocal := strings.CutPrefix(name, "qwb/")
	if name == "qwb" { // the module's root
		local, isLocal = ".", true
	}
	if !isLocal {
		if !strings.Contains(strings.SplitN(name, "/", 2)[0], ".") {
			if (dir == "." || below(dir, "internal/work")) && slices.Contains(ofTheProcess, name) {
				return "it is about the whole process, in which others work too"
			}
			if slices.Contains(templates, name) {
				return "the linker could leave out no method of any type"
			}
			return ""
		}
		for where, modules := range thirdParty {
			for _, m := range modules {
				if below(dir, where) && below(name, m) {
					return ""
				}
			}
		}
		return "this module is not for this package"
	}
	to, ok := layerOf(local)
	switch {
	case !ok:
		return "it stands in no layer"
	case to > from, to == from && !sameTree(dir, local):
		return "against the direction"
	}
	for _, n := range never {
		if below(dir, n[0]) && below(local, n[1]) && !below(n[1], n[0]) {
			return "never"
		}
	}
	return ""
}

// layerOf is the number of the line of a package.
func layerOf(dir string) (other int, found bool) {
	for i, line := range layers {
		for _, entry := range strings.Fields(line) {
			if tree, ok := strings.CutSuffix(entry, "/..."); ok && below(dir, tree) || entry == dir {
				return i, true
			}
			if entry == path.Dir(dir)+"/*" {
				other, found = i, true
			}
		}
	}
	return other, found
}

// sameTree reports whether one /... entry covers both packages.
func sameTree(a, b string) bool {
	for _, line := range layers {
		for _, entry := range strings.Fields(line) {
			if tree, ok := strings.CutSuffix(entry, "/..."); ok && below(a, tree) && below(b, tree) {
				return true
			}
		}
	}
	return false
}

func below(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// parseSources parses every non-test Go file of the module, by directory. It reads the files itself, so that the test cache
// notices when one changes.
func parseSources(t *testing.T) map[string][]*ast.File {
	t.Helper()
	out := map[string][]*ast.File{}
	set := token.NewFileSet()
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && file != ".." && (strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") || name == "testdata" ||
			name == "examples") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel("..", file)
		if err != nil {
			return err
		}
		dir := path.Dir(filepath.ToSlash(rel))
		out[dir] = append(out[dir], f)
		return nil
	})
	require.NoError(t, err)
	return out
}
