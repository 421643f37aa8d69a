package certify

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/internal/work/open"
	"qwb/quantizer/plan"
)

// A gate opens the samples of a certificate as verify-certificate does, the alphabet of their texts included; what it is told itself goes
// first.
func TestGateOpensDataOfCertificate(t *testing.T) {
	c := &Certificate{Data: CertifiedData{Paths: []string{"../data", "synthetic:4"}, Samples: 7, Seed: 3, LabelOffset: 1,
		Labels: &plan.File{Path: "labels.tsv"}, Alphabet: &plan.File{Path: "alphabet.txt"}}, Figures: CertifiedFigures{Metric: "cer"}}
	file := filepath.Join("work", "c.json")
	r := &recheck{o: RecheckOptions{Certificate: file}, c: c}
	want := open.DataOptions{Paths: []string{"data", "synthetic:4"}, Samples: 7, Seed: 3, LabelOffset: 1, Stored: &c.Data.Preprocess,
		Labels: filepath.Join("work", "labels.tsv"),
		Metric: open.MetricOptions{Names: []string{"cer"}, Alphabet: filepath.Join("work", "alphabet.txt")}}
	require.Equal(t, want, c.data(r.at))
	require.Equal(t, want, dataOfCertificate(file, c, open.DataOptions{}))
	want.Labels, want.Metric = "mine.tsv", open.MetricOptions{Names: []string{"wer"}, Alphabet: "mine.txt"}
	require.Equal(t, want, dataOfCertificate(file, c, open.DataOptions{Labels: "mine.tsv", Metric: want.Metric}))
}
