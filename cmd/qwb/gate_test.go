package main

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/analysis"
)

// gated runs a gate and returns what it found, by check.
func gated(t *testing.T, code int, args ...string) (map[string]analysis.GateCheck, result) {
	t.Helper()
	r := invoke(append([]string{"gate", "--json"}, args...)...)
	require.Equal(t, code, r.code, "%s\n%s", r.stdout, r.stderr)
	var g qwb.GateReport
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &g))
	require.Equal(t, code == exitDone, g.Held)
	by := map[string]analysis.GateCheck{}
	for _, c := range g.Checks {
		by[c.Check] = c
	}
	return by, r
}

// A plan, its certificate, and either against the other say the same: green and red.
func TestGateOfPlansAndCertificates(t *testing.T) {
	contested(t)
	data := []string{"--data", "eval", "--labels", "labels.tsv"}
	for _, p := range []string{"a", "b"} {
		done(t, append([]string{"certify", p + ".plan.json", "-o", p + ".json"}, data...)...)
	}
	for _, limits := range [][]string{{"--max-drop", "-50"}, {"--max-drop", "50"}, {"--max-nsr", "1e-9"},
		{"--max-nsr", "5", "--max-drop", "60", "--max-flips", "100"}} {
		code := exitDone
		if limits[1] == "-50" || limits[1] == "1e-9" {
			code = exitCheck
		}
		plan, _ := gated(t, code, append(append([]string{"b.plan.json"}, data...), limits...)...)
		certificate, _ := gated(t, code, append([]string{"b.json"}, limits...)...)
		for check, c := range plan {
			if !strings.HasPrefix(check, "integers") {
				require.Equal(t, c, certificate[check], "%s", check)
			}
		}
		two, _ := gated(t, code, append(append([]string{"a.plan.json", "b.plan.json"}, data...), limits...)...)
		for _, pair := range [][]string{{"a.json", "b.json"}, {"a.plan.json", "b.json"}, {"a.json", "b.plan.json"}} {
			other, _ := gated(t, code, append(pair, limits...)...)
			require.Equal(t, two["drop of top1"], other["drop of top1"], "%s: paired, and on the certificate's data", pair)
			require.Equal(t, two["classes that changed"], other["classes that changed"], "%s", pair)
		}
	}
	pairs := done(t, append([]string{"compare", "b.plan.json", "a.plan.json", "--json"}, data...)...).object(t)["pairs"].([]any)
	by, _ := gated(t, exitDone, "a.json", "b.json", "--max-drop", "90")
	require.Equal(t, pairs[0].(map[string]any)["drop"], *by["drop of top1"].Value, "as compare has it")
	require.Equal(t, pairs[0].(map[string]any)["drop_error"], *by["drop of top1"].Error)
	require.Equal(t, analysis.GatePassed, by["integers, profile trt, backend cpu"].Verdict)

	// A drop within the noise passes with a note, unless it is to be strict. Float's answers count as right: a changes some.
	done(t, "certify", "a.plan.json", "--data", "eval", "-o", "agreement.json")
	const check = "drop of top1 (agreement with float)"
	by, _ = gated(t, exitDone, "agreement.json", "--max-drop", "90")
	drop := *by[check].Value
	require.Positive(t, drop)
	require.Positive(t, *by[check].Error)
	limit := []string{"agreement.json", "--max-drop", jsonNumber(drop - 0.5)}
	by, _ = gated(t, exitDone, limit...)
	require.Equal(t, analysis.GateNoted, by[check].Verdict)
	require.Contains(t, by[check].Note, "within the noise of 24 samples")
	_, r := gated(t, exitCheck, append(limit, "--strict")...)
	require.Contains(t, r.lastLine(), "agreement.json: "+check+": above the limit by 0.50 pp")
	require.Contains(t, done(t, "plan", "log", "b.plan.json").stdout, "gate: ", "the log tells it")
}

func jsonNumber(x float64) string {
	b, _ := json.Marshal(x)
	return string(b)
}

// JUnit and Markdown say the same, in the same bytes each time, also where the gate fails; names from files cannot break them.
func TestGateWritesForCI(t *testing.T) {
	contested(t)
	hostile := "<a>|`\x1b]&\".json"
	done(t, "certify", "a.plan.json", "--data", "eval", "-o", "c.json")
	require.NoError(t, os.Rename("c.json", hostile))
	gated(t, exitCheck, hostile, "--max-nsr", "1e-9", "--max-flips", "100", "--junit", "1.xml", "--markdown", "1.md")
	gated(t, exitCheck, hostile, "--max-nsr", "1e-9", "--max-flips", "100", "--junit", "2.xml", "--markdown", "2.md")
	require.Equal(t, read(t, "1.xml"), read(t, "2.xml"))
	require.Equal(t, read(t, "1.md"), read(t, "2.md"))
	var suites struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
			} `xml:"failure"`
		} `xml:"testsuite>testcase"`
	}
	require.NoError(t, xml.Unmarshal(read(t, "1.xml"), &suites))
	require.Equal(t, 3, suites.Tests)
	require.Equal(t, 1, suites.Failures)
	require.Equal(t, "NSR", suites.Cases[0].Name)
	require.Contains(t, suites.Cases[0].Failure.Message, "above the limit")
	require.Nil(t, suites.Cases[1].Failure)
	md := string(read(t, "1.md"))
	require.NotContains(t, md, "\x1b")
	require.NotContains(t, md, "<a>")
	require.Equal(t, 3+3, strings.Count(md, "\n|")+1, "%s", md)
}

func TestGateRefuses(t *testing.T) {
	contested(t)
	done(t, "certify", "a.plan.json", "--data", "eval", "--labels", "labels.tsv", "-o", "a.json")
	done(t, "certify", "b.plan.json", "--data", "eval", "-o", "agreement.json")
	done(t, "certify", "b.plan.json", "-o", "other.json")
	fails(t, exitUsage, "needs a limit", "gate", "a.json")
	fails(t, exitUsage, "not a number", "gate", "a.json", "--max-drop", "NaN")
	fails(t, exitUsage, "a plan or certificate", "gate", "a.json", "b.json", "c.json", "--max-drop", "1")
	fails(t, exitUsage, "scored by top1 and .* by top1 against float", "gate", "a.json", "agreement.json", "--max-drop", "1")
	fails(t, exitUsage, "measured on other samples", "gate", "other.json", "agreement.json", "--max-flips", "1")
	write(t, "shifted.tsv", []byte(strings.Replace(string(read(t, "labels.tsv")), "\t0\n", "\t1\n", 1)))
	done(t, "certify", "b.plan.json", "--data", "eval", "--labels", "shifted.tsv", "-o", "shifted.json")
	fails(t, exitUsage, "other labels of the same samples", "gate", "a.json", "shifted.json", "--max-drop", "99")
	fails(t, exitFailed, "no.json", "gate", "no.json", "--max-drop", "1")
	fails(t, exitFailed, "overwrite a file that is a plan", "gate", "a.json", "--max-drop", "1", "--junit", "a.plan.json")
	by, _ := gated(t, exitDone, "other.json", "agreement.json", "--max-drop", "99")
	require.Contains(t, by["drop of top1 (agreement with float)"].Note, "not paired")
	write(t, "a.json", []byte(strings.Replace(string(read(t, "a.json")), `"drop": `, `"drop": 1`, 1)))
	fails(t, exitCheck, "its content was changed", "gate", "a.json", "--max-drop", "1")
}
