// Command compare holds a Q/DQ model that ONNX Runtime executed to qwb's executor, step by step (see examples/ort/README.md). Every
// quantized tensor is computed again from the tensors that ONNX Runtime itself recorded at the beginning of its step, and may
// differ only where the value before rounding lies closer to a rounding boundary than float32 can tell.
//
//	compare MODEL RECORD...
//
// RECORD is a folder that examples/ort/record.py wrote. The exit code is 3 if anything differs beyond its bound.
package main

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"qwb/graph"
	"qwb/graph/onnx"
)

// errBeyond says that a difference is no tie.
var errBeyond = errors.New("a quantized tensor differs where it is no tie")

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "compare MODEL RECORD...")
		os.Exit(2)
	}
	err := run(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
	}
	if errors.Is(err, errBeyond) {
		os.Exit(3)
	}
	if err != nil {
		os.Exit(1)
	}
}

func run(path string, folders []string) error {
	m, _, err := onnx.Open(path)
	if err != nil {
		return err
	}
	defer m.Close()
	graph.InferShapes(m.Graph)
	var all report
	for _, folder := range folders {
		rec, err := readRecord(folder, m.Graph)
		if err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
		if err := compare(m.Graph, rec, &all); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	all.print()
	if all.beyond() > 0 {
		return errBeyond
	}
	return nil
}

// row is what was found about one tensor, over all records.
type row struct {
	tensor    string
	elements  int
	different int
	ties      int     // different, by one step, within the bound
	distance  float64 // of those that differ, the largest distance from a rounding boundary, in steps
	bound     float64 // the largest bound of any element of the tensor, in steps
}

// report collects rows in the order of the graph.
type report struct {
	rows    []row
	index   map[string]int
	floats  []row // distance is the largest relative difference
	floatAt map[string]int
}

// row returns the row of a tensor in a list, which grows as needed.
func rowOf(rows *[]row, index *map[string]int, tensor string) *row {
	if *index == nil {
		*index = map[string]int{}
	}
	i, ok := (*index)[tensor]
	if !ok {
		i = len(*rows)
		(*index)[tensor] = i
		*rows = append(*rows, row{tensor: tensor})
	}
	return &(*rows)[i]
}

func (r *report) quantized(tensor string) *row { return rowOf(&r.rows, &r.index, tensor) }
func (r *report) float(tensor string) *row     { return rowOf(&r.floats, &r.floatAt, tensor) }

func (r *report) beyond() int {
	n := 0
	for _, x := range r.rows {
		n += x.different - x.ties
	}
	return n
}

func (r *report) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "elements\tdifferent\tties\tlargest distance\tbound\ttensor\t")
	var sum row
	for _, x := range r.rows {
		fmt.Fprintf(w, "%d\t%d\t%d\t%.2g\t%.2g\t%s\t\n", x.elements, x.different, x.ties, x.distance, x.bound, x.tensor)
		sum.elements += x.elements
		sum.different += x.different
		sum.ties += x.ties
		sum.distance = max(sum.distance, x.distance)
		sum.bound = max(sum.bound, x.bound)
	}
	w.Flush()
	relative := 0.0
	for _, x := range r.floats {
		relative = max(relative, x.distance)
		fmt.Printf("float tensor %s: largest relative difference %.2g\n", x.tensor, x.distance)
	}
	fmt.Printf("%d quantized tensors, %d elements: %d different, %d of them ties, %d beyond; largest distance %.2g, largest bound %.2g; "+
		"float tensors: %d, largest relative difference %.2g\n",
		len(r.rows), sum.elements, sum.different, sum.ties, r.beyond(), sum.distance, sum.bound, len(r.floats), relative)
}
