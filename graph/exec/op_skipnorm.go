package exec

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
)

// skipNormEvals are ONNX Runtime's normalizations over the last axis that add something before.
var skipNormEvals = []evaluator{
	{op: "SkipLayerNormalization", build: buildSkipNorm(4, layerNormRows)},
	{op: "SkipSimplifiedLayerNormalization", build: buildSkipNorm(3, rmsNormRows)},
	{op: "EmbedLayerNormalization", build: buildEmbedNorm},
}

// simplifiedNormEvals is RMSNormalization under the name that ONNX Runtime gives it, in the domain of ONNX.
var simplifiedNormEvals = []evaluator{
	{op: "SimplifiedLayerNormalization", build: buildSimplifiedNorm},
}

func buildSimplifiedNorm(n *graph.Node, version int64) (evalFunc, error) {
	if len(n.Outputs) > 1 && n.Outputs[1] != graph.NoValue {
		return nil, fmt.Errorf("output inv_std_var is not supported")
	}
	return buildRMSNorm(n, version)
}

// normRows normalizes rows of n elements with inputs of the node: scale, and bias if there is one.
type normRows func(c *call, dst, src []float32, n int, eps float64) error

// layerNormRows has the inputs x, skip, gamma, beta (may be absent), bias.
func layerNormRows(c *call, dst, src []float32, n int, eps float64) error {
	gamma, beta := c.ofRow(2, n), c.ofRow(3, n)
	if gamma == nil || beta == nil && c.has(3) {
		return fmt.Errorf("gamma and beta do not have %d elements", n)
	}
	c.run.s.table.LayerNorm(c.run.s.par, dst, src, gamma, beta, n, eps, nil, nil)
	return nil
}

// rmsNormRows has the inputs x, skip, gamma, bias.
func rmsNormRows(c *call, dst, src []float32, n int, eps float64) error {
	gamma := c.ofRow(2, n)
	if gamma == nil {
		return fmt.Errorf("gamma does not have %d elements", n)
	}
	c.run.s.table.RMSNorm(c.run.s.par, dst, src, gamma, n, eps)
	return nil
}

// buildSkipNorm normalizes x + skip + bias; bias is input biasAt. Output 3 is that sum; 1 and 2, statistics for training, are
// refused.
func buildSkipNorm(biasAt int, norm normRows) func(*graph.Node, int64) (evalFunc, error) {
	return func(n *graph.Node, _ int64) (evalFunc, error) {
		for i := 1; i < min(len(n.Outputs), 3); i++ {
			if n.Outputs[i] != graph.NoValue {
				return nil, fmt.Errorf("output %d is not supported", i)
			}
		}
		eps := n.Epsilon()
		return func(c *call) error {
			if err := c.floats(); err != nil {
				return err
			}
			x, skip := c.in(0), c.in(1)
			out, err := c.out(0)
			if err != nil {
				return err
			}
			size := x.Shape[len(x.Shape)-1]
			sum := out.F32()
			if c.wants(3) {
				t, err := c.out(3)
				if err != nil {
					return err
				}
				sum = t.F32()
			}
			if skip.Len() == 0 || x.Len()%skip.Len() != 0 {
				return fmt.Errorf("skip %s for %s", skip.Type(), x.Type())
			}
			for at := 0; at < len(sum); at += skip.Len() { // it may be one sample for all
				kernels.Add(sum[at:][:skip.Len()], x.F32()[at:][:skip.Len()], skip.F32())
			}
			if c.has(biasAt) {
				bias := c.ofRow(biasAt, size)
				if bias == nil {
					return fmt.Errorf("bias %s for %s", c.in(biasAt).Type(), x.Type())
				}
				c.run.s.table.AddRow(sum, sum, bias)
			}
			return norm(c, out.F32(), sum, size, eps)
		}, nil
	}
}

// The inputs of EmbedLayerNormalization.
const (
	embedIDs = iota
	embedSegments
	embedWords
	embedPositions
	embedSegmentTable
	embedGamma
	embedBeta
	embedMask
	embedPositionIDs
)

// buildEmbedNorm normalizes the sum of the embeddings of words, positions and segments. Output 1 is, by sample, how many elements
// of the mask are 1 (0 without a mask), output 2 the sum.
func buildEmbedNorm(n *graph.Node, _ int64) (evalFunc, error) {
	eps := n.Epsilon()
	return func(c *call) error {
		ids, words := c.in(embedIDs), c.in(embedWords)
		for _, i := range []int{embedWords, embedPositions, embedSegmentTable, embedGamma, embedBeta} {
			if c.has(i) && c.raw(i).DType != tensor.Float32 {
				return badType(i, c.raw(i).DType)
			}
		}
		out, err := c.out(0)
		if err != nil {
			return err
		}
		size := words.Shape[1]
		sum := out.F32()
		if c.wants(2) {
			t, err := c.out(2)
			if err != nil {
				return err
			}
			sum = t.F32()
		}
		clear(sum)
		if err := c.embed(sum, ids, words); err != nil {
			return err
		}
		positions := c.in(embedPositionIDs)
		if positions == nil {
			positions = tensor.New(tensor.Int32, 1, ids.Shape[1])
			for i := range ids.Shape[1] {
				tensor.Of[int32](positions)[i] = int32(i)
			}
		}
		if err := c.embed(sum, positions, c.in(embedPositions)); err != nil {
			return err
		}
		if c.has(embedSegments) && c.has(embedSegmentTable) {
			if err := c.embed(sum, c.in(embedSegments), c.in(embedSegmentTable)); err != nil {
				return err
			}
		}
		gamma, beta := c.ofRow(embedGamma, size), c.ofRow(embedBeta, size)
		if gamma == nil || beta == nil {
			return fmt.Errorf("gamma and beta do not have %d elements", size)
		}
		c.run.s.table.LayerNorm(c.run.s.par, out.F32(), sum, gamma, beta, size, eps, nil, nil)
		return c.countMask(ids.Shape)
	}, nil
}

// embed adds the rows of table that ids name to the rows of sum; ids of fewer samples are repeated.
func (c *call) embed(sum []float32, ids, table *tensor.Tensor) error {
	rows, err := ints(ids)
	if err != nil {
		return err
	}
	size := table.Shape[len(table.Shape)-1]
	if len(rows) == 0 || len(sum)%(len(rows)*size) != 0 {
		return fmt.Errorf("indices %s and table %s for %d elements", ids.Type(), table.Type(), len(sum))
	}
	for i := range len(sum) / size {
		row := rows[i%len(rows)]
		if row < 0 || row >= table.Shape[0] {
			return fmt.Errorf("index %d is outside of table %s", row, table.Type())
		}
		kernels.Add(sum[i*size:][:size], sum[i*size:][:size], table.F32()[row*size:][:size])
	}
	return nil
}

// countMask writes how many elements of each row of the mask are 1.
func (c *call) countMask(shape []int) error {
	if !c.wants(1) {
		return nil
	}
	out, err := c.out(1)
	if err != nil {
		return err
	}
	counts := tensor.Of[int32](out)
	clear(counts)
	if !c.has(embedMask) {
		return nil
	}
	mask, err := ints(c.in(embedMask))
	if err != nil || len(mask) != shape[0]*shape[1] {
		return fmt.Errorf("mask %s for indices of shape %v", c.in(embedMask).Type(), shape)
	}
	for i, v := range mask {
		if v == 1 {
			counts[i/shape[1]]++
		}
	}
	return nil
}
