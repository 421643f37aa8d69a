package main

import (
	"runtime/debug"
	"time"

	"qwb"
	"qwb/export/all"
	"qwb/internal/gpu"
	"qwb/quantizer/tqc"
	"qwb/reports"
)

// project is what the commands work on: files of the operating system, everything that this binary offers, and messages to where e
// sends them.
func (e *env) project(model, plan string) *qwb.Project {
	return &qwb.Project{Model: model, Plan: plan, Events: events{e}, Catalog: qwb.Catalog{
		Version: version, Backends: offered(), Formats: all.Formats(), OpenDevice: gpu.OpenDevice,
		SecondReader: secondReader, Now: time.Now, PeakMemory: peakRSS,
		Settled:       debug.FreeOSMemory,
		MetricCommand: startMetric, Operators: e.own(),
	}}
}

// events prints what the core says while it works.
type events struct{ *env }

func (e events) Progress(what string, total int) (done func(int), end func()) {
	return e.progress(what, total)
}

func (e events) Note(text string)   { e.note("%s", text) }
func (e events) Detail(text string) { e.detail("%s", text) }

func (e events) Warning(w tqc.Warning) {
	if w.Node == "" {
		e.warn("%s", w.Text)
		return
	}
	e.warn("%s: %s", reports.Shorten(w.Node, 60), w.Text)
}
