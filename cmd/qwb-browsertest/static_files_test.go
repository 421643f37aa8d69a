package browsertest

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/onnx"
	"qwb/internal/demo"
)

// TestFilesOfAModelWithoutAServer drops models of several files on the page of a folder, and what it does not read: a model whose weights
// come later, a folder that has both, a model of PNNX, checkpoints of language models.
func TestFilesOfAModelWithoutAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	host := httptest.NewServer(http.FileServer(http.Dir(site.folder(t))))
	defer host.Close()
	var model []byte
	require.NoError(t, demo.Files(context.Background(), demo.DefaultSeed, func(name string, content []byte) error {
		if name == demo.ModelName {
			model = content
		}
		return nil
	}))
	file := filepath.Join(dir, "net.onnx")
	require.NoError(t, os.WriteFile(file, model, 0o600))
	m, _, err := onnx.Open(file)
	require.NoError(t, err)
	defer m.Close()
	m.Graph.Name += ", weights beside it" // what is not changed is written as it is
	split := filepath.Join(dir, "split")
	require.NoError(t, os.Mkdir(split, 0o755))
	require.NoError(t, m.Save(filepath.Join(split, "net.onnx"), onnx.SaveOptions{ExternalAbove: 1}))
	files := map[string][]byte{}
	entries, err := os.ReadDir(split)
	require.NoError(t, err)
	weights := ""
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(split, e.Name()))
		require.NoError(t, err)
		files[e.Name()] = b
		if e.Name() != "net.onnx" {
			weights = e.Name()
		}
	}
	require.NotEmpty(t, weights)

	// drop gives files to the page, with the folders that are in their names.
	drop := func(p *tab, names ...string) {
		t.Helper()
		p.until(`document.querySelector("nav.tabs button[aria-current]")`)
		script := `(() => { const i = document.querySelector("input[aria-label='Choose files of this machine']"), d = new DataTransfer();
			const add = (name, text) => { const f = new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name.split("/").pop());
				if (name.includes("/")) Object.defineProperty(f, "webkitRelativePath", {value: name}); return f; };
			const list = [];`
		for _, name := range names {
			script += `list.push(add(` + quoted(name) + `, ` +
				quoted(base64.StdEncoding.EncodeToString(files[name[strings.LastIndex(name, "/")+1:]])) + `));`
		}
		p.js(script+`for (const f of list) d.items.add(f);
			Object.defineProperty(i, "files", {value: list, configurable: true}); return i.dispatchEvent(new Event("change")); })()`, nil)
	}
	opened := `text().includes("multiply-accumulates") && text().includes("No plan yet")`

	p := open(t, host.URL+"/index.html", desk)
	p.until(`one("input[placeholder='ONNX, .tflite, PNNX or a plan']")`)
	drop(p, "net.onnx")
	p.until(`text().includes("it belongs beside the model") && text().includes(` + quoted(weights) + `)`)
	p.shoot("static-weights-missing")
	drop(p, weights)
	p.until(opened)

	p = open(t, host.URL+"/index.html", desk)
	drop(p, "some/folder/"+weights, "some/folder/net.onnx")
	p.until(opened + ` && text().includes("net.onnx")`)

	p = open(t, host.URL+"/index.html", look{500, 900, true})
	for name, content := range map[string]string{"small.gguf": "GGUF\x03\x00\x00\x00",
		"model.safetensors": "\x20\x00\x00\x00\x00\x00\x00\x00{\"a\":{}}                        "} {
		files[name] = []byte(content)
		drop(p, name)
		p.until(`text().includes(` + quoted(name+": this is a checkpoint of a language model") +
			`) && text().includes("ONNX, TensorFlow Lite or PNNX")`)
	}
	p.shoot("static-language-refused")
}
