//go:build unix

// Command measured says what reading back takes of exports, as the table of readback.md:
//
//	go run ./cmd/qwb/measured MODEL.onnx DATA [FORMAT...] > table.md
//
// Every export is run in pairs, with and without reading back, in turns; a share is that of the processor time of the pair's first, the
// median of three pairs, of nine where the plan was verified before.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"qwb"
	"qwb/export"
	"qwb/export/all"
	"qwb/internal/file"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

// rows are the formats that are measured, with a platform for each.
var rows = [][2]string{{"onnx", "onnxruntime"}, {"onnx", "openvino_int8"}, {"onnx", "trt_int8"}, {"qoperator", "onnxruntime"},
	{"tflite", "tflite_int8"},
	{"c", "onnxruntime"}, {"image", "onnxruntime"}, {"vectors", "onnxruntime"}, {"patterns", "onnxruntime"}, {"encodings", "qnn"},
	{"trt-cache", "trt_int8"}, {"ncnn", "ncnn_int8"}, {"mnn", "mnn_int8"}, {"espdl", "espdl_int8"}, {"nxp", "nxp_int8"},
	{"json", "onnxruntime"}}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: measured MODEL.onnx DATA [FORMAT...]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(model, data string, formats []string) error {
	dir, err := os.MkdirTemp("", "measured")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintln(os.Stdout, "| format, platform | verifies: export, s | reading back | verified before: export, "+
		"s | reading back |\n|---|---|---|---|---|")
	for _, r := range rows {
		if len(formats) > 0 && !slices.Contains(formats, r[0]) {
			continue
		}
		m := &measure{dir: dir, format: r[0], plan: filepath.Join(dir, r[1]+qwb.PlanSuffix)}
		p := m.project(true)
		p.Model = model
		if _, err := os.Stat(m.plan); err != nil {
			if _, _, err := p.Calibrate(context.Background(),
				qwb.CalibrateOptions{Platform: r[1], Data: qwb.DataOptions{Paths: []string{data}, Samples: 8}}); err != nil {
				return err
			}
		}
		calibrated, err := file.ReadFile(m.plan)
		if err != nil {
			return err
		}
		line := "| " + r[0] + ", " + r[1]
		for _, pairs := range []int{3, 9} { // after the first, the plan is verified
			all, share, err := m.share(pairs)
			if err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
			line += fmt.Sprintf(" | %.2f | %.0f %%", all, 100*share)
			if _, _, err := m.project(true).Export(context.Background(),
				qwb.ExportOptions{Format: m.format, Out: m.out()}); err != nil {
				return err
			}
		}
		fmt.Fprintln(os.Stdout, line+" |")
		if err := os.WriteFile(m.plan, calibrated, 0o600); err != nil { // not verified, for the next format
			return err
		}
	}
	return nil
}

type measure struct{ dir, format, plan string }

// out is where a format is written: a file or a folder.
func (m *measure) out() string { return filepath.Join(m.dir, "out-"+m.format) }

// project is the plan with the formats as they are, or without what reads them back.
func (m *measure) project(back bool) *qwb.Project {
	formats := all.Formats()
	if !back {
		for i := range formats {
			formats[i].Back = nil
		}
	}
	return &qwb.Project{Plan: m.plan, Catalog: qwb.Catalog{Version: "measured", Backends: []program.Backend{program.Reference, cpu.Backend},
		Formats: slices.DeleteFunc(formats, func(f export.Format) bool { return f.From == export.Checkpoint })}}
}

// share is the processor time of an export in seconds, and what of it reading back takes; the plan stays as it is.
func (m *measure) share(pairs int) (seconds, share float64, err error) {
	plan, err := file.ReadFile(m.plan)
	if err != nil {
		return 0, 0, err
	}
	var times, shares []float64
	for range pairs {
		var used [2]float64
		for i, back := range []bool{true, false} {
			if err := os.WriteFile(m.plan, plan, 0o600); err != nil {
				return 0, 0, err
			}
			runtime.GC()
			before := processor()
			if _, _, err := m.project(back).Export(context.Background(),
				qwb.ExportOptions{Format: m.format, Out: m.out()}); err != nil {
				return 0, 0, err
			}
			used[i] = processor() - before
		}
		times, shares = append(times, used[0]), append(shares, 1-used[1]/used[0])
	}
	slices.Sort(times)
	slices.Sort(shares)
	return times[pairs/2], shares[pairs/2], os.WriteFile(m.plan, plan, 0o600)
}

// processor is the time of the process in seconds.
func processor() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
