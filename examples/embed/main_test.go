package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"image/png"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"qwb"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
)

// network is Conv, Swoosh, Conv on pictures of 8 x 8.
func network(t *testing.T) []byte {
	t.Helper()
	weights := func(shape ...int) *tensor.Tensor {
		w := tensor.New(tensor.Float32, shape...)
		for i := range w.F32() {
			w.F32()[i] = float32(math.Sin(float64(3*i + 1)))
		}
		return w
	}
	g := graph.New("net", 17)
	g.Opsets = append(g.Opsets, graph.Opset{Domain: "acme", Version: 1})
	value := func(name string, channels int64) graph.ValueID {
		v, err := g.AddValue(graph.Value{Name: name, DType: tensor.Float32, Shape: graph.Static(1, int(channels), 8, 8)})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	x, a, b, y := value("x", 3), value("a", 4), value("b", 4), value("y", 2)
	for _, n := range []graph.Node{
		{Name: "first", Op: "Conv", Inputs: []graph.ValueID{x, g.AddConst("w1", weights(4, 3, 1, 1))}, Outputs: []graph.ValueID{a}},
		{Name: "swoosh", Op: "Swoosh", Domain: "acme", Attrs: []graph.Attr{graph.Float("slope", 1.5)}, Inputs: []graph.ValueID{a},
			Outputs: []graph.ValueID{b}},
		{Name: "last", Op: "Conv", Inputs: []graph.ValueID{b, g.AddConst("w2", weights(2, 4, 1, 1))}, Outputs: []graph.ValueID{y}},
	} {
		if _, err := g.AddNode(n); err != nil {
			t.Fatal(err)
		}
	}
	g.Inputs, g.Outputs = []graph.ValueID{x}, []graph.ValueID{y}
	var file bytes.Buffer
	if err := (&onnx.Model{Graph: g}).Write(&file); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func picture(t *testing.T, seed int) []byte {
	t.Helper()
	p := image.NewRGBA(image.Rect(0, 0, 8, 8))
	for i := range 64 {
		p.Set(i%8, i/8, color.RGBA{uint8(i*seed*7 + 3), uint8(i*seed*11 + 5), uint8(i*seed*13 + 7), 255})
	}
	var file bytes.Buffer
	if err := png.Encode(&file, p); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// A model on disk is quantized: its convolutions on integers, the operator of this program between them in float.
func TestQuantize(t *testing.T) {
	dir := t.TempDir()
	model, data := filepath.Join(dir, "net.onnx"), filepath.Join(dir, "pictures")
	if err := errors.Join(os.WriteFile(model, network(t), 0o644), os.Mkdir(data, 0o755)); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := os.WriteFile(filepath.Join(data, string(rune('a'+i))+".png"), picture(t, i+1), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := quantize(context.Background(), nil, model, data, "")
	if err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]string{"first": "INT8", "swoosh": "FP32", "last": "INT8"} {
		if r.Operator[node] != want {
			t.Errorf("%s is %s, not %s", node, r.Operator[node], want)
		}
	}
	if r.Samples != 4 {
		t.Errorf("%d samples", r.Samples)
	}
	text, err := os.ReadFile(r.File)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "x\t") || !strings.HasPrefix(lines[3], "y\t") {
		t.Errorf("scales of x, a, b and y, not\n%s", text)
	}
}

// The handler quantizes what is in its store, and says as data what it cannot do.
func TestHandler(t *testing.T) {
	store := new(qwb.Memory)
	store.Write("net.onnx", network(t))
	store.Write("text.onnx", []byte("no model"))
	for i := range 4 {
		store.Write("pictures/"+string(rune('a'+i))+".png", picture(t, i+1))
	}
	h := handler(store)
	ask := func(query string) (int, map[string]any) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/quantize?"+query, nil))
		var answer map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		return w.Code, answer
	}
	if code, r := ask("model=net.onnx&data=pictures"); code != http.StatusOK || r["file"] != "net.scales" {
		t.Errorf("%d %v", code, r)
	}
	if _, there := store.Read("net.scales"); !there {
		t.Error("there are no scales")
	}
	for query, kind := range map[string]string{"model=none.onnx&data=pictures": "input", "model=text.onnx&data=pictures": "input",
		"model=net.onnx&data=none": "input"} {
		code, r := ask(query)
		fault, _ := r["error"].(map[string]any)
		if code != http.StatusUnprocessableEntity || fault["kind"] != kind || fault["message"] == "" {
			t.Errorf("%s: %d %v", query, code, r)
		}
	}
}
