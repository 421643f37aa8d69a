package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/analysis"
)

// certifiedPlace is a workplace with everything a certificate names in folders of their own: a tuned plan, its export, data, labels,
// c.json.
func certifiedPlace(t *testing.T, more ...string) {
	t.Helper()
	inFolder(t)
	require.NoError(t, os.MkdirAll("models", 0o755))
	require.NoError(t, os.MkdirAll("work", 0o755))
	saveModel(t, "models/m.onnx", depthwise)
	saveInputs(t, "data", 100, 40, 1, 3, 12, 12)
	saveInputs(t, "eval", 900, 24, 1, 3, 12, 12)
	var labels strings.Builder
	for i := range 24 {
		fmt.Fprintf(&labels, "%02d.npy\t%d\n", i, i%10)
	}
	write(t, "labels.tsv", []byte(labels.String()))
	done(t, "calibrate", "models/m.onnx", "--data", "data", "--platform", "onnxruntime", "--border-cost", "0", "-o", "work/m.plan.json")
	done(t, "tune", "work/m.plan.json", "--method", "bias", "--force")
	done(t, "export", "work/m.plan.json", "--platform", "onnxruntime", "-o", "work/m.q.onnx")
	done(t, append([]string{"certify", "work/m.plan.json", "--data", "eval", "--labels", "labels.tsv", "--export", "work/m.q.onnx", "-o",
		"c.json"}, more...)...)
}

// recheck derives a certificate again and returns what it found, by what was checked.
func recheck(t *testing.T, code int, args ...string) (map[string]qwb.Recheck, result) {
	t.Helper()
	r := invoke(append([]string{"verify-certificate", "--json"}, args...)...)
	require.Equal(t, code, r.code, "%s\n%s", r.stdout, r.stderr)
	var found qwb.RecheckResult
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &found))
	require.Equal(t, code == exitDone, found.Holds)
	by := map[string]qwb.Recheck{}
	for _, c := range found.Checks {
		by[c.What] = c
	}
	return by, r
}

// A certificate says what eval and verify say, is derived again with any number of threads, and elsewhere.
func TestCertificateIsDerivedAgain(t *testing.T) {
	certifiedPlace(t, "--profile", "ort,avx2-saturating", "--backend", "cpu,reference", "--threads", "1")
	var c qwb.Certificate
	require.NoError(t, json.Unmarshal(read(t, "c.json"), &c))
	e := done(t, "eval", "work/m.plan.json", "--data", "eval", "--labels", "labels.tsv", "--mode", "sim", "--json").object(t)
	require.Equal(t, e["drop"], *c.Figures.Drop)
	require.EqualValues(t, e["flips"], *c.Figures.Flips)
	require.Equal(t, e["centred"].(map[string]any)["nsr"], c.Figures.NSR)
	require.Len(t, c.Verifications, 4)
	require.Equal(t, c.Verifications[0].Digest, c.Verifications[1].Digest, "backends compute the same integers")
	require.Equal(t, "onnx", c.Exports[0].Export)
	require.Equal(t, 0, c.Data.Seen)
	require.Len(t, c.Samples, 24)

	for _, args := range [][]string{{"c.json"}, {"c.json", "--threads", "3"}} {
		for what, check := range first(recheck(t, exitDone, args...)) {
			require.Equal(t, qwb.RecheckEqual, check.Verdict, "%s: %v", what, check)
		}
	}

	here, err := os.Getwd()
	require.NoError(t, err)
	elsewhere := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(elsewhere, "copy of all"), os.DirFS(here)))
	require.NoError(t, os.CopyFS(filepath.Join(elsewhere, "images"), os.DirFS("eval")))
	t.Chdir(elsewhere)
	recheck(t, exitDone, "copy of all/c.json")
	require.NoError(t, os.Rename("copy of all/c.json", "moved.json"))
	fails(t, exitFailed, `the certificate's model is not there: models/m\.onnx \(--model`, "verify-certificate", "moved.json")
	recheck(t, exitDone, "moved.json", "--root", "copy of all")
	require.NoError(t, os.Rename("copy of all/models/m.onnx", "other name.onnx"))
	require.NoError(t, os.RemoveAll("copy of all/eval"))
	fails(t, exitFailed, `data is not there: copy of all/eval \(--data`, "verify-certificate", "moved.json", "--root", "copy of all",
		"--model", "other name.onnx")
	recheck(t, exitDone, "moved.json", "--root", "copy of all", "--model", "other name.onnx", "--data", "images")
}

func first[A, B any](a A, _ B) A { return a }

// A byte that changes anywhere is found, and what has changed is named.
func TestCertificateFindsAChangedByte(t *testing.T) {
	certifiedPlace(t)
	overlays, err := filepath.Glob("work/*.tuned.*.safetensors")
	require.NoError(t, err)
	require.Len(t, overlays, 1)
	for file, name := range map[string]string{"models/m.onnx": "model models/m.onnx", "work/m.plan.json": "plan",
		overlays[0]:   "tuned values " + overlays[0],
		"eval/07.npy": "data", "labels.tsv": "labels labels.tsv", "work/m.q.onnx": "export work/m.q.onnx"} {
		whole := read(t, file)
		for _, at := range []int{len(whole) / 5, len(whole) / 2, len(whole) - 3} {
			changed := slices.Clone(whole)
			changed[at] ^= 1
			write(t, file, changed)
			by, r := recheck(t, exitCheck, "c.json")
			var named []string
			for what, c := range by {
				if c.Verdict == qwb.RecheckDifferent {
					named = append(named, what)
				}
			}
			require.Len(t, named, 1, "%s at %d", file, at)
			if name == "plan" { // it also says what its exports were verified with
				require.Regexp(t, `^(plan|text of the plan|export .*, made again)`, named[0], "at %d", at)
			} else {
				require.Contains(t, named[0]+" ", name+" ", "%s at %d", file, at)
			}
			require.Contains(t, r.lastLine(), named[0])
			if name == "data" {
				require.Contains(t, r.lastLine(), "1 of 24 samples are others, the first is 07.npy")
			}
		}
		write(t, file, whole)
	}
	recheck(t, exitDone, "c.json")

	whole := read(t, "c.json")
	found := map[int]int{}
	for at := 0; at < len(whole); at += 7 {
		changed := slices.Clone(whole)
		changed[at] ^= 2
		write(t, "c.json", changed)
		r := invoke("verify-certificate", "c.json")
		require.Contains(t, []int{exitFailed, exitCheck}, r.code, "byte %d: %s", at, r.stderr)
		require.Regexp(t, "c.json|certificate", r.lastLine())
		require.NotContains(t, r.stderr, "goroutine ")
		found[r.code]++
	}
	require.Len(t, found, 2, "some cannot be read any more, some say something else: %v", slices.Sorted(maps.Keys(found)))
}

// A decision changes the plan; a verification does not; numbers that somebody improved in a certificate are found by deriving them.
func TestCertificateAndItsPlan(t *testing.T) {
	certifiedPlace(t)
	done(t, "verify", "work/m.plan.json", "--samples", "3")
	recheck(t, exitDone, "c.json")
	done(t, "set", "work/m.plan.json", "first", "domain=fp32")
	by, r := recheck(t, exitCheck, "c.json")
	require.Equal(t, qwb.RecheckDifferent, by["plan work/m.plan.json"].Verdict)
	require.Equal(t, qwb.RecheckSkipped, by["figures, integers"].Verdict)
	require.Contains(t, r.lastLine(), "c.json: plan work/m.plan.json differs")
	done(t, "certify", "work/m.plan.json", "--data", "eval", "-o", "fp32.json")
	var c qwb.Certificate
	require.NoError(t, json.Unmarshal(read(t, "fp32.json"), &c))
	require.True(t, c.Figures.Agreement)
	require.Positive(t, c.Verifications[0].Digest.BehindFloat)
	recheck(t, exitDone, "fp32.json")
	done(t, "plan", "undo", "work/m.plan.json")

	c = qwb.Certificate{}
	require.NoError(t, json.Unmarshal(read(t, "c.json"), &c))
	c.Figures.NSR /= 2
	c.Verifications[0].Digest = &analysis.Digest{SHA256: strings.Repeat("0", 64), Integers: c.Verifications[0].Digest.Integers}
	forged, err := qwb.SealCertificate(&c)
	require.NoError(t, err)
	write(t, "c.json", forged)
	by, _ = recheck(t, exitCheck, "c.json")
	require.Equal(t, qwb.RecheckEqual, by["certificate"].Verdict)
	require.Equal(t, qwb.RecheckDifferent, by["NSR"].Verdict)
	require.Equal(t, qwb.RecheckDifferent, by["integers, profile ort, backend cpu"].Verdict, "%v", by)
}

// A certificate is about all files of an export, whichever of them are named, and about a folder of masks with all below it.
func TestCertificateOfSeveralFiles(t *testing.T) {
	certifiedPlace(t)
	done(t, "calibrate", "models/m.onnx", "--data", "data", "--platform", "ncnn_int8", "--border-cost", "0", "-o", "work/n.plan.json")
	done(t, "export", "work/n.plan.json", "--platform", "ncnn_int8", "-o", "work/n.param")
	whole := read(t, "work/n.bin")
	changed := slices.Clone(whole)
	changed[len(changed)/2] ^= 1
	certify := []string{"certify", "work/n.plan.json", "--data", "eval", "-o", "n.json", "--export"}
	for _, args := range [][]string{{"work/n.param"}, {"work/n.bin", "--export", "work/n.param"}} {
		_ = os.Remove("n.json")
		r := done(t, append(slices.Clone(certify), args...)...)
		require.NotContains(t, r.stderr, "no format gives")
		require.Contains(t, r.stdout, "work/n.bin")
		by, _ := recheck(t, exitDone, "n.json")
		require.Equal(t, qwb.RecheckEqual, by["export n.bin, made again"].Verdict)
		write(t, "work/n.bin", changed)
		_, r = recheck(t, exitCheck, "n.json")
		require.Contains(t, r.lastLine(), "export work/n.bin differs")
		write(t, "work/n.bin", whole)
	}

	write(t, "work/n.bin", changed)
	require.NoError(t, os.Remove("n.json"))
	r := done(t, append(certify, "work/n.param")...)
	require.Contains(t, r.stderr, "work/n.bin is not what --format ncnn writes")
	recheck(t, exitDone, "n.json")
	write(t, "work/n.bin", whole)
	_, r = recheck(t, exitCheck, "n.json")
	require.Contains(t, r.lastLine(), "export work/n.bin differs")
	require.NoError(t, os.Remove("work/n.bin"))
	require.NoError(t, os.Remove("n.json"))
	fails(t, exitFailed, `n\.param, as --format ncnn writes it: .*n\.bin`, append(certify, "work/n.param")...)
}

func TestCertifyRefuses(t *testing.T) {
	certifiedPlace(t)
	fails(t, exitUsage, "needs -o", "certify", "work/m.plan.json")
	fails(t, exitFailed, "would be replaced|overwrite", "certify", "work/m.plan.json", "-o", "models/m.onnx")
	fails(t, exitFailed, "no.onnx", "certify", "work/m.plan.json", "-o", "d.json", "--export", "no.onnx")
	write(t, "own.json", []byte("{\n  \"format\": \"qwb certificate\",\n"))
	fails(t, exitFailed, "no.onnx", "certify", "work/m.plan.json", "-o", "own.json", "--export", "no.onnx") // it may be replaced
	write(t, "other.json", []byte("{\n  \"format\": \"another\",\n"))
	fails(t, exitFailed, "would overwrite", "certify", "work/m.plan.json", "-o", "other.json")
	fails(t, exitUsage, "unknown backend", "certify", "work/m.plan.json", "-o", "d.json", "--backend", "gpu")
	fails(t, exitUsage, "profile", "certify", "work/m.plan.json", "-o", "d.json", "--profile", "no")
	fails(t, exitFailed, "this is no certificate", "verify-certificate", "work/m.plan.json")
	fails(t, exitFailed, "no such file", "verify-certificate", "no.json")
	fails(t, exitUsage, "one certificate", "verify-certificate")
	write(t, "v.json", []byte(strings.Replace(string(read(t, "c.json")), `"version": 1`, `"version": 2`, 1)))
	fails(t, exitFailed, "version 2", "verify-certificate", "v.json")
	r := invoke("certify", "work/m.plan.json", "-o", "d.json", "--export", "models/m.onnx")
	require.Equal(t, exitDone, r.code, r.stderr)
	require.Contains(t, r.stderr, "no format gives this file")
}
