package llama2c

import (
	"fmt"

	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
)

// Q80 is version 2: matrices are int8 in groups of neighbours with a float32 scale each, the codes of a tensor first and then its
// scales; norms are float32. Groups count through the elements of a tensor, so they may straddle rows. No engine computes such groups.
// llama2.c's exporter writes them all the same where they divide the model's dimension, the only thing that it looks at; these files can
// be made again here, and say that they are unlike what runq computes. All others are refused.
func Q80() weights.Format {
	return weights.Format{Name: "q80", Title: "llama2.c version 2, int8 in groups", Suffix: ".bin", Matrices: []string{"int8"},
		NormEps: normEps, Layout: layout2, Open: open}
}

func layout2(m *checkpoint.Model, o weights.Options) (*weights.File, error) {
	f, err := begin(m, "llama2.c version 2")
	if err != nil {
		return nil, err
	}
	group, warnings, err := weights.Groups(&m.Config, weights.Sizing{Asked: o.Group, Default: o.Usual, Fallback: o.Fallback, Straddle: true})
	if err != nil {
		return nil, err
	}
	f.Unlike = weights.Straddling(&m.Config, group)
	if f.Unlike != "" && m.Dim%group != 0 {
		return nil, fmt.Errorf("export: %s", f.Unlike)
	}
	f.Warnings = append(f.Warnings, warnings...)
	f.Add(header(&m.Config, 2, group))
	body(f, weights.Encoding{Type: checkpoint.Groups, Group: group, Search: o.Search})
	return f, nil
}
