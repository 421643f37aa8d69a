package ncnn

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"qwb/export"
)

// backTable reads a table and the network of floats beside it.
func backTable(_ context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	r, err := newRecoverer(in, tableWants, tableLacks)
	if err != nil {
		return nil, err
	}
	text, err := fs.ReadFile(out.FS(), out.Name())
	if err != nil {
		return nil, err
	}
	if r.table, err = readTable(string(text)); err != nil {
		return nil, fmt.Errorf("%s: %w", out.Name(), err)
	}
	b, err := r.read(out, networkOf(out.Name()))
	if err != nil {
		return nil, err
	}
	for name := range r.table {
		if layer := strings.TrimSuffix(name, ofWeights); r.layers[layer] == nil || r.table[layer] == nil || r.table[layer+ofWeights] == nil {
			return nil, fmt.Errorf("%s: %q: the network has no such layer, or the table one of its two lines only", out.Name(), layer)
		}
	}
	return b, nil
}

// readTable lists the numbers of every line by its first word.
func readTable(text string) (map[string][]float32, error) {
	table := map[string][]float32{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if table[words[0]] != nil {
			return nil, fmt.Errorf("%q has two lines", words[0])
		}
		list := []float32{}
		for _, word := range words[1:] {
			x, err := strconv.ParseFloat(word, 32)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", words[0], err)
			}
			list = append(list, float32(x))
		}
		table[words[0]] = list
	}
	return table, nil
}

// tableWants is wants, and the numbers of the constants that ncnn2int8 makes integers of.
func tableWants(in *export.Input, yield func(*export.Item) error) error {
	coded := map[string]bool{}
	err := wants(in, func(it *export.Item) error {
		if it.Kind == export.Codes {
			coded[it.At] = true
		}
		return yield(it)
	})
	if err != nil {
		return err
	}
	g := in.Model.Graph
	for _, id := range g.Nodes() {
		n := g.Node(id)
		for i, v := range n.Inputs {
			if at := export.SlotName(n.Name, i, 0); coded[at] {
				if err := yield(&export.Item{At: at, Kind: export.Numbers, Floats: g.Const(v).ToRowMajor().F32()}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// tableLacks is lacks, and what ncnn2int8 makes.
func tableLacks(it *export.Item) string {
	if it.Kind == export.Codes {
		return "codes of weights, which ncnn2int8 makes of their numbers and scales"
	}
	return lacks(it)
}
