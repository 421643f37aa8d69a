package options_test

import (
	"encoding/json"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/internal/options"
	"qwb/quantizer/tqc"
)

var catalog = qwb.Standard("test")

// commands are all that have a table.
func commands() map[string]options.Command {
	return map[string]options.Command{"calibrate": &options.Calibrate{}, "sweep": &options.Sweep{}, "import": &options.Import{},
		"preprocess": &options.Preprocess{}, "doctor": &options.Doctor{}, "dispatch": &options.Dispatch{}, "tune": &options.Tune{},
		"analyze": &options.Analyze{}, "eval": &options.Eval{}, "verify": &options.Verify{}, "run": &options.Run{},
		"generate": &options.Generate{}, "compare": &options.Compare{}, "gate": &options.Gate{}, "certify": &options.Certify{},
		"verify-certificate": &options.Recheck{}, "replace": &options.Replace{}, "export": &options.Export{}, "bind": &options.Bind{}}
}

// A row has a name of its own, a help, a place of its own, and a default of the type of that place.
func TestRows(t *testing.T) {
	for name, c := range commands() {
		seen, places := map[string]bool{}, map[any]bool{}
		for _, o := range c.Table(&catalog) {
			assert.False(t, seen[o.Name], "%s --%s is there twice", name, o.Name)
			assert.False(t, places[o.At], "%s --%s has the place of another one", name, o.Name)
			seen[o.Name], places[o.At] = true, true
			assert.NotEmpty(t, o.Help, "%s --%s", name, o.Name)
			if o.Default != nil {
				at := reflect.TypeOf(o.At).Elem()
				if at.Kind() == reflect.Pointer {
					at = at.Elem()
				}
				assert.Equal(t, at, reflect.TypeOf(o.Default), "%s --%s", name, o.Name)
			}
		}
	}
}

// A page starts no programs, picks no file to write but that of an export, and does not choose threads and memory.
func TestJobsDoNotHaveAll(t *testing.T) {
	for name, c := range commands() {
		for _, key := range []string{"metric-cmd", "html", "png", "dump", "patterns", "answers", "junit", "markdown",
			"threads", "mem", "json", "shard", "gram", "backend"} {
			assert.Nil(t, c.Table(&catalog).Job().Find(key), "%s %s", name, key)
		}
		if name != "export" {
			assert.Nil(t, c.Table(&catalog).Job().Find("output"), name)
		}
	}
}

// What JSON says and what flags say is the same, whatever the type.
func TestJSONAndWords(t *testing.T) {
	var o options.Calibrate
	job := o.Table(&catalog).Job()
	require.NoError(t, job.Decode("calibrate", []byte(`{"platform": "trt_int8", "data": ["a", "b c"], "seed": 3, "label_offset": -1,
		"observer": "mse", "per_tensor": true, "border_cost": 0, "batch": 4, "samples": 0, "state": []}`)))
	assert.Equal(t, []string{"a", "b c"}, o.Data.Paths)
	assert.Equal(t, tqc.ObserverMSE, o.Observer)
	assert.Equal(t, "--platform trt_int8 --data a --data b c --seed 3 --label-offset -1 --observer mse --per-tensor --border-cost 0 --batch 4",
		strings.Join(job.Words(), " "))
	text, err := json.Marshal(job)
	require.NoError(t, err)
	var again options.Calibrate
	require.NoError(t, again.Table(&catalog).Job().Decode("calibrate", []byte(strings.ReplaceAll(string(text), "null", "[]"))))
	assert.Equal(t, o.Data, again.Data)

	var d options.Dispatch
	job = d.Table(&catalog).Job()
	require.NoError(t, job.Decode("dispatch", []byte(`{"auto": true, "formats": "int4,fp16", "max_nsr": 0.01, "metric": "top1,top5"}`)))
	assert.Equal(t, []string{"int4", "fp16"}, d.Formats)
	assert.Equal(t, "--auto --metric top1,top5 --max-nsr 0.01 --formats int4,fp16", strings.Join(job.Words(), " "))

	for _, c := range []struct{ text, want string }{
		{`{"sampels": 3}`, `calibrate:1: unknown key "sampels"`},
		{`{"samples": 3, "samples": 3}`, `key "samples" is repeated`},
		{`{"samples": "3"}`, `an int is wanted, not a string`},
		{`{"platform": null}`, `null`},
		{`{"samples": -3}`, `--samples -3: must be 0 or more`},
		{`{"backend": "cuda"}`, `unknown key "backend"`},
	} {
		err := (&options.Calibrate{}).Table(&catalog).Job().Decode("calibrate", []byte(c.text))
		assert.ErrorContains(t, err, c.want)
		assert.ErrorAs(t, err, &qwb.UsageError{})
	}
}

// Check gives every place the number of threads, and makes bytes of a size.
func TestCheck(t *testing.T) {
	var o options.Calibrate
	table := o.Table(&catalog)
	require.NoError(t, table.Check())
	assert.Equal(t, runtime.GOMAXPROCS(0), o.Threads)
	assert.Equal(t, o.Threads, o.Data.Threads)
	assert.EqualValues(t, 2<<30, o.Memory)
	for text, want := range map[string]int64{"512M": 512 << 20, "1.5GiB": 3 << 29, "": 3 << 29} {
		require.NoError(t, table.Find("mem").At.(options.Value).Set("1.5G"))
		require.NoError(t, table.Find("mem").At.(options.Value).Set(text))
		require.NoError(t, table.Check())
		assert.Equal(t, want, o.Memory, text)
	}
	for _, text := range []string{"12", "lots", "NaNG", "-1G", "1E40G"} {
		require.NoError(t, table.Find("mem").At.(options.Value).Set(text))
		assert.ErrorContains(t, table.Check(), "not a size", text)
	}
}

// A search needs one budget and a budget a search, however often it is asked.
func TestBudgets(t *testing.T) {
	half := 0.5
	for want, o := range map[string]*options.Dispatch{
		"":                                     {Auto: true, MaxNSR: &half},
		"dispatch needs --fp32":                {},
		"--auto needs a budget":                {Auto: true},
		"--max-drop needs --data":              {Auto: true, MaxDrop: &half},
		"need --auto":                          {MinCosine: &half},
		"one budget at a time: --max-nsr":      {Auto: true, MinCosine: &half, MaxNSR: &half},
		"one budget at a time: on the error":   {Auto: true, MaxNSR: &half, Most: [3]string{"80%"}},
		"--minimize is for a budget on the er": {Auto: true, Minimize: "time", Most: [3]string{"80%"}},
		"--max-macs much: not an amount":       {Auto: true, Most: [3]string{"much"}},
		"--max-macs needs --auto":              {Most: [3]string{"80%"}},
		"--minimize needs --auto":              {Minimize: "macs"},
	} {
		for range 2 {
			if err := o.Check(); want == "" {
				assert.NoError(t, err)
				assert.Equal(t, &qwb.Budget{Name: "nsr", At: half}, o.Budget)
			} else {
				assert.ErrorContains(t, err, want)
			}
		}
	}
	o := options.Dispatch{Auto: true, Most: [3]string{"", "1.5M"}}
	for range 2 {
		require.NoError(t, o.Check())
		assert.Equal(t, "bytes", o.Costing.What)
		assert.Nil(t, o.Budget)
	}
}
