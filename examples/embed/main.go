// Command embed quantizes a model with what it brings along, and answers how. It uses nothing of qwb but its stable packages.
//
//	go run . -model net.onnx -data pictures/ [-out net.scales] [-serve :8080]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"

	"qwb"
)

func main() {
	model := flag.String("model", "", "an ONNX model of floats")
	data := flag.String("data", "", "a folder of pictures to calibrate on")
	out := flag.String("out", "", "file for the scales; beside the model unless given")
	serve := flag.String("serve", "", "address to answer requests at, instead of quantizing: POST /quantize?model=M&data=D")
	flag.Parse()
	var err error
	switch {
	case *serve != "":
		err = http.ListenAndServe(*serve, handler(nil))
	case *model == "" || *data == "":
		flag.Usage()
		os.Exit(2)
	default:
		var r *Result
		if r, err = quantize(context.Background(), nil, *model, *data, *out); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(r)
		}
	}
	if err != nil {
		log.Fatalf("%s: %v", qwb.Describe(err).Kind, err)
	}
}

// Result is what a quantization came to.
type Result struct {
	File     string            `json:"file"`
	Samples  int               `json:"samples"`
	Operator map[string]string `json:"operators"` // INT8, FP32 or SOI, by the name of the node
	Verdict  string            `json:"verdict"`
	Warnings int               `json:"warnings"`
}

// quantize calibrates a model for the platform of this program, verifies it and writes its scales. A nil store is the operating system's.
func quantize(ctx context.Context, store qwb.Store, model, data, out string) (*Result, error) {
	catalog, err := acme()
	if err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(model, ".onnx")
	p := &qwb.Project{Model: model, Plan: base + qwb.PlanSuffix, Store: store, Catalog: catalog}
	c, warnings, err := p.Calibrate(ctx, qwb.CalibrateOptions{Platform: npu,
		Data: qwb.DataOptions{Paths: []string{data}, Preprocess: "imagenet-inception"}, Fresh: true})
	if err != nil {
		return nil, err
	}
	if out == "" {
		out = base + ".scales"
	}
	e, more, err := p.Export(ctx, qwb.ExportOptions{Platform: npu, Out: out})
	if err != nil {
		return nil, err
	}
	r := &Result{File: e.File, Samples: c.Samples, Operator: map[string]string{}, Warnings: len(warnings) + len(more)}
	if e.Verification != nil {
		r.Verdict = e.Verification.Verdict
	}
	planned, _, err := p.OpenPlan()
	if err != nil {
		return nil, err
	}
	defer planned.Close()
	for _, id := range planned.Graph.Nodes() {
		r.Operator[planned.Graph.Node(id).Name] = planned.Set.Domains[id].String()
	}
	return r, nil
}

// handler quantizes on request. What goes wrong is answered with a status that follows from its kind.
func handler(store qwb.Store) http.Handler {
	status := map[qwb.ErrorKind]int{qwb.KindUsage: http.StatusBadRequest, qwb.KindInput: http.StatusUnprocessableEntity,
		qwb.KindUnsupported: http.StatusUnprocessableEntity, qwb.KindChanged: http.StatusConflict, qwb.KindCheck: http.StatusConflict}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /quantize", func(w http.ResponseWriter, req *http.Request) {
		var answer any
		code := http.StatusOK
		r, err := quantize(req.Context(), store, req.FormValue("model"), req.FormValue("data"), "")
		if answer = r; err != nil {
			fault := qwb.Describe(err)
			answer, code = map[string]qwb.Fault{"error": fault}, http.StatusInternalServerError
			if s, known := status[fault.Kind]; known {
				code = s
			}
			var node *qwb.NodeError
			if errors.As(err, &node) {
				w.Header().Set("Qwb-Node", node.Node)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			fmt.Fprintln(os.Stderr, err) // who asked is gone
		}
	})
	return mux
}
