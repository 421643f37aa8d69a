package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/schematest"
)

// A certificate in an envelope is derived again and gated as one alone is; a certificate has what its schema says.
func TestCertificateInAnEnvelope(t *testing.T) {
	certifiedPlace(t)
	require.Equal(t, exitUsage, invoke("certify", "work/m.plan.json", "--data", "eval", "--form", "envelope", "-o", "e.json").code)
	for _, form := range []string{"statement", "envelope", "envelope"} { // the last replaces one that is there
		done(t, "certify", "work/m.plan.json", "--data", "eval", "--labels", "labels.tsv", "--export", "work/m.q.onnx", "--form", form, "-o",
			form+".json")
		by, _ := recheck(t, exitDone, form+".json")
		require.Contains(t, by, "export m.q.onnx, made again")
		done(t, "gate", form+".json", "c.json", "--max-drop", "1")
	}
	var s struct {
		Subject []struct{ Name string }
	}
	require.NoError(t, json.Unmarshal(read(t, "statement.json"), &s))
	require.Equal(t, "work/m.q.onnx", s.Subject[0].Name)
	write(t, "key.pem", []byte("no key"))
	require.Equal(t, exitUsage, invoke("verify-certificate", "envelope.json", "--key", "key.pem").code)

	var schema, c map[string]any
	require.NoError(t, json.Unmarshal([]byte(done(t, "plan", "schema", "certificate").stdout), &schema))
	require.NoError(t, json.Unmarshal(read(t, "c.json"), &c))
	require.True(t, schematest.Valid(t, schema, c))
	delete(c, "figures")
	require.False(t, schematest.Valid(t, schema, c))
}

// Card and bill of materials appear with the export, name its hash and what was measured, and appear nowhere else.
func TestCardBesideTheExport(t *testing.T) {
	certifiedPlace(t)
	r := done(t, "export", "work/m.plan.json", "-o", "work/m.q.onnx", "--card", "work/README.md", "--ml-bom", "work/m.cdx.json",
		"--base-model", "some/one", "--json").object(t)
	card := string(read(t, "work/README.md"))
	require.True(t, strings.HasPrefix(card, "---\nbase_model: \"some/one\"\nbase_model_relation: quantized\n"), card)
	require.Contains(t, card, r["sha256"])
	require.Contains(t, card, "| qwb certify | ../eval |")
	require.Contains(t, card, "drop ")
	var bom struct {
		BOMFormat string
		Metadata  struct {
			Component struct {
				Hashes    []struct{ Content string }
				ModelCard struct {
					QuantitativeAnalysis struct {
						PerformanceMetrics []struct{ Type string }
					}
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(read(t, "work/m.cdx.json"), &bom))
	require.Equal(t, "CycloneDX", bom.BOMFormat)
	require.Equal(t, r["sha256"], bom.Metadata.Component.Hashes[0].Content)
	require.NotEmpty(t, bom.Metadata.Component.ModelCard.QuantitativeAnalysis.PerformanceMetrics)

	require.Equal(t, exitUsage, invoke("export", "work/m.plan.json", "-o", "work/other.onnx", "--card", "README.md").code)
	require.NoFileExists(t, "work/other.onnx")
	require.Equal(t, exitFailed, invoke("export", "work/m.plan.json", "-o", "work/other.onnx", "--card", "work/m.plan.json").code)
	require.Equal(t, exitUsage, invoke("export", "work/m.plan.json", "-o", "work/other.onnx", "--base-model", "x").code)
}

// The bill of materials of the program has its modules; SARIF has the findings; MLflow's files are the same each time.
func TestFilesForOtherTools(t *testing.T) {
	certifiedPlace(t)
	require.Contains(t, done(t, "version", "--sbom").stdout, `"pkg:golang/github.com/spf13/cobra@`)
	var sarif struct {
		Runs []struct {
			Results []struct{ RuleID, Level string }
		}
	}
	results := func(name string) []struct{ RuleID, Level string } {
		require.NoError(t, json.Unmarshal(read(t, name), &sarif))
		return sarif.Runs[0].Results
	}
	require.Equal(t, exitCheck, invoke("gate", "c.json", "--max-nsr", "1e-12", "--sarif", "g.sarif").code)
	require.Equal(t, "error", results("g.sarif")[0].Level)
	done(t, "doctor", "work/m.q.onnx", "--platform", "onnxruntime", "--sarif", "d.sarif")
	require.Empty(t, results("d.sarif"))
	broken := invoke("doctor", "work/m.q.onnx", "--platform", "trt_int8", "--sarif", "d.sarif")
	require.Equal(t, exitCheck, broken.code, broken.stderr)
	require.NotEmpty(t, results("d.sarif"))

	var texts [2]bytes.Buffer
	for i := range texts {
		done(t, "plan", "log", "work/m.plan.json", "--mlflow", "mlruns")
		files, err := filepath.Glob("mlruns/*/*/*/*")
		require.NoError(t, err)
		for _, f := range files {
			b, err := os.ReadFile(f)
			require.NoError(t, err)
			texts[i].WriteString(f + "\n")
			texts[i].Write(b)
		}
	}
	require.Contains(t, texts[0].String(), filepath.FromSlash("metrics/certify.nsr_error"))
	require.Equal(t, texts[0].String(), texts[1].String())
}
