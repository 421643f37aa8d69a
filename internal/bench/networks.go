package bench

import (
	"fmt"
	"math"
	"strings"

	"qwb/graph"
)

// ResNet50 makes a network of the shape of ResNet-50 with random weights: pictures of size x size, 3 channels, in batches of any
// length; width is 64 in the real one, whose pictures are 224 x 224. Normalisations are folded, as in a network that is deployed.
// The same seed gives the same weights, and activations keep their size from layer to layer.
func ResNet50(width, size int, seed uint64) (*graph.Graph, error) {
	b := residual{seed: seed}
	fmt.Fprintf(&b.text, "opset 13\ninput x: f32[N,3,%d,%d]\n", size, size)
	v := b.conv("x", 3, width, 7, 2, 1)
	v = b.node("MaxPool(%s) {kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]}", b.node("Relu(%s)", v))
	channels := width
	for stage, blocks := range []int{3, 4, 6, 3} {
		inner, stride := width<<stage, 1+min(stage, 1)
		for range blocks {
			// The last convolution of a block adds half of what it could, so that sums grow slowly.
			r := b.node("Relu(%s)", b.conv(v, channels, inner, 1, 1, 1))
			r = b.node("Relu(%s)", b.conv(r, inner, inner, 3, stride, 1))
			r = b.conv(r, inner, 4*inner, 1, 1, 0.5)
			if channels != 4*inner || stride != 1 {
				v = b.conv(v, channels, 4*inner, 1, stride, 0.5)
			}
			v, channels, stride = b.node("Relu(%s)", b.node("Add(%s, %s)", r, v)), 4*inner, 1
		}
	}
	v = b.node("Flatten(%s)", b.node("GlobalAveragePool(%s)", v))
	classes := 1000 * width / 64
	w, bias := b.normal([]int{classes, channels}, 1/math.Sqrt(float64(channels))), b.normal([]int{classes}, 0.05)
	v = b.node("Gemm(%s, %s, %s) {transB=1}", v, w, bias)
	fmt.Fprintf(&b.text, "output %s: f32[N,%d]\n", v, classes)
	g, err := graph.Parse(b.text.String())
	if err != nil {
		return nil, err
	}
	for _, err := range graph.InferShapes(g) {
		return nil, err
	}
	return g, g.Check()
}

// residual writes a network as text.
type residual struct {
	text   strings.Builder
	seed   uint64
	values int
}

// node adds an operator, and returns the name of its output.
func (b *residual) node(format string, inputs ...any) string {
	b.values++
	name := fmt.Sprintf("v%d", b.values)
	fmt.Fprintf(&b.text, name+" = "+format+"\n", inputs...)
	return name
}

func (b *residual) normal(shape []int, std float64) string {
	b.values++
	name := fmt.Sprintf("p%d", b.values)
	fmt.Fprintf(&b.text, "const %s: f32%s = normal(seed=%d, std=%g)\n", name, strings.Join(strings.Fields(fmt.Sprint(shape)), ","),
		b.seed<<16+uint64(b.values), std)
	return name
}

// conv adds a convolution; half of what a ReLU lets through has twice the gain.
func (b *residual) conv(v string, in, out, kernel, stride int, gain float64) string {
	w := b.normal([]int{out, in, kernel, kernel}, gain*math.Sqrt(2/float64(in*kernel*kernel)))
	bias := b.normal([]int{out}, 0.05)
	return b.node("Conv(%s, %s, %s) {kernel_shape=[%d,%d], strides=[%d,%d], pads=[%d,%d,%d,%d]}", v, w, bias, kernel, kernel, stride, stride,
		kernel/2, kernel/2, kernel/2, kernel/2)
}
