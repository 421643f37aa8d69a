// Command qwb-page writes the workbench as pages that need no server of ours: a folder that any host of static files can serve, and the
// same as one HTML file that a browser opens from disk.
//
//	go run ./cmd/qwb-page -o DIR
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"qwb/reports/page"
)

// A page in one file, and in a folder, under these names.
const (
	singleFile = "qwb.html"
	wasmFile   = "page/qwb.wasm.gz"
	resultFile = "page/demo.json"
	entry      = "static.js"
)

func main() {
	dir := flag.String("o", "qwb-page", "folder to write")
	release := flag.String("version", "", "release that stands in exported files; empty: that of the sources")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "qwb-page: no arguments, only flags")
		os.Exit(2)
	}
	if err := run(*dir, *release); err != nil {
		fmt.Fprintln(os.Stderr, "qwb-page:", err)
		os.Exit(1)
	}
}

func run(dir, release string) error {
	core, err := build(release)
	if err != nil {
		return err
	}
	root, err := runtimeRoot()
	if err != nil {
		return err
	}
	goScript, err := os.ReadFile(filepath.Join(root, "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return err
	}
	result, err := resultOf(context.Background(), release)
	if err != nil {
		return err
	}
	parts := parts{core, goScript, result}
	if err := folder(dir, parts); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := single(&b, parts); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, singleFile), b.Bytes(), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(os.Stdout, "%-40s for any host of static files; the core is %.1f MB compressed\n%-40s the same in one file of %.1f "+
		"MB, to be opened from disk\n",
		filepath.Join(dir, "index.html"), float64(len(core))/1e6, filepath.Join(dir, singleFile), float64(b.Len())/1e6)
	return err
}

// parts are what a page needs beside its modules: the core, compressed, Go's script that starts it, and the result of the demo.
type parts struct{ core, goScript, result []byte }

// written are packages that read, write and decide, and compute little: their calls are not inlined, which saves a twelfth of the core.
var written = []string{"qwb/export/...", "qwb/internal/...", "qwb/graph/onnx", "qwb/graph/passes", "qwb/graph/tflite/...", "qwb/graph/pnnx",
	"qwb/quantizer/qdq", "github.com/goccy/go-yaml/..."}

// build compiles the core and compresses it. What is compressed here is sent as it is: no host needs to be told to do it.
func build(release string) ([]byte, error) {
	file, err := os.CreateTemp("", "qwb-*.wasm")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	if err := file.Close(); err != nil {
		return nil, err
	}
	link := "-s -w"
	if release != "" {
		link += " -X main.version=" + release
	}
	args := []string{"build", "-trimpath", "-ldflags=" + link, "-o", file.Name()}
	for _, p := range written {
		args = append(args, "-gcflags="+p+"=-l")
	}
	c := exec.Command("go", append(args, "qwb/cmd/qwb-page/wasm")...)
	c.Env, c.Stderr = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0"), os.Stderr
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("go build: %w", err)
	}
	wasm, err := os.ReadFile(file.Name())
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(wasm); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}

// runtimeRoot is where Go lies, whose script starts the core: that of the release which compiles it.
func runtimeRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// folder writes the modules as they are, index.html for them, and the core.
func folder(dir string, p parts) error {
	files := map[string][]byte{wasmFile: p.core, "page/wasm_exec.js": p.goScript, resultFile: p.result}
	err := fs.WalkDir(page.Files(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(page.Files(), name)
		files["page/"+name] = b
		return err
	})
	if err != nil {
		return err
	}
	index, err := indexOf(string(files["page/index.html"]))
	if err != nil {
		return err
	}
	delete(files, "page/index.html")
	files["index.html"] = []byte(index)
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// indexOf makes the page of qwb serve one for a host without it: another entry, and the policy that the server would send.
func indexOf(served string) (string, error) {
	const served1, charset = `src="page/live.js"`, "<meta charset=\"utf-8\">\n"
	if strings.Count(served, served1) != 1 || strings.Count(served, charset) != 1 {
		return "", fmt.Errorf("index.html has no %s or no charset", served1)
	}
	s := strings.Replace(served, served1, `src="page/`+entry+`"`, 1)
	return strings.Replace(s, charset,
		charset+`<meta http-equiv="Content-Security-Policy" content="default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; `+
			`img-src 'self' data: blob:; base-uri 'none'; form-action 'none'">`+"\n", 1), nil
}

// single writes everything as one file. A worker cannot be a file beside it there: it is made of text, which has Go's script in front.
func single(b *bytes.Buffer, p parts) error {
	worker, err := fs.ReadFile(page.Files(), "worker.js")
	if err != nil {
		return err
	}
	script, err := json.Marshal(string(p.goScript) + "\n" + string(worker))
	if err != nil {
		return err
	}
	wasm, err := json.Marshal(base64.StdEncoding.EncodeToString(p.core))
	if err != nil {
		return err
	}
	styles, err := fs.Glob(page.Files(), "*.css")
	if err != nil {
		return err
	}
	d := page.Document{Title: "qwb", Entry: entry, Data: []page.Data{{ID: "qwb-worker", JSON: script}, {ID: "qwb-wasm", JSON: wasm},
		{ID: "qwb-demo", JSON: p.result}},
		Scripts: "'wasm-unsafe-eval'", Policy: "worker-src blob:"}
	for _, name := range styles {
		if name != "page.css" {
			d.Styles = append(d.Styles, name)
		}
	}
	return d.Write(b)
}
