package graph

import (
	"fmt"
	"math"
)

// Geometry is a sliding window with everything made explicit: defaults are filled in and automatic padding is resolved. All
// slices have one entry per spatial axis. A size that depends on an unknown dimension is -1. PadEnd does not include the
// positions that ceil_mode adds.
type Geometry struct {
	Kernel, Stride, Dilation []int
	PadBegin, PadEnd         []int
	OutputPadding            []int // of ConvTranspose, nil for others: added at the end of each axis
	In, Out                  []int
	Group                    int
	ceil                     bool
}

// maxWindow bounds every number of a window, so that products of two cannot overflow.
const maxWindow = math.MaxInt32

// ConvGeometry returns the window of Conv, ConvInteger, QLinearConv and alike for input x [N,C,spatial...] and weight w
// [M,C/group,kernel...], logical shapes of the same rank.
func ConvGeometry(n *Node, x, w Shape) (*Geometry, error) {
	if err := checkConvRanks(x, w); err != nil {
		return nil, err
	}
	geo, err := window(n, x[2:], w[2:], n.Pool().Kernel)
	if err != nil {
		return nil, err
	}
	if c, wc := x[1], w[1]; c.Known() && wc.Known() && (wc.N > MaxElements || c.N != wc.N*int64(geo.Group)) {
		return nil, fmt.Errorf("input has %d channels, weight %s with group %d needs %d", c.N, w, geo.Group, wc.N*int64(geo.Group))
	}
	if m := w[0]; m.Known() && m.N%int64(geo.Group) != 0 {
		return nil, fmt.Errorf("%d output channels are not divisible by group %d", m.N, geo.Group)
	}
	return geo, geo.slide(n.AttrStr("auto_pad", "NOTSET"), false)
}

// ConvTransposeGeometry returns the window of ConvTranspose for input x [N,C,spatial...] and weight w [C,M/group,kernel...].
// With output_shape or automatic padding, the pads are computed from the size of the output. If they add up to an odd number,
// SAME_UPPER puts the odd element at the end, anything else at the beginning (ONNX ConvTranspose-11). The pad at the end is
// negative where output_shape is larger than the kernel reaches.
func ConvTransposeGeometry(n *Node, x, w Shape) (*Geometry, error) {
	if err := checkConvRanks(x, w); err != nil {
		return nil, err
	}
	geo, err := window(n, x[2:], w[2:], n.Pool().Kernel)
	if err != nil {
		return nil, err
	}
	if c, wc := x[1], w[0]; c.Known() && wc.Known() && c.N != wc.N {
		return nil, fmt.Errorf("input has %d channels, weight %s needs %d", c.N, w, wc.N)
	}
	if c := w[0]; c.Known() && c.N%int64(geo.Group) != 0 {
		return nil, fmt.Errorf("%d input channels are not divisible by group %d", c.N, geo.Group)
	}
	rank := len(geo.In)
	if geo.OutputPadding, err = windowAttr(n, "output_padding", rank, 0, 0); err != nil {
		return nil, err
	}
	outShape := n.AttrInts("output_shape")
	if len(outShape) == rank+2 {
		outShape = outShape[2:]
	}
	if outShape != nil && len(outShape) != rank {
		return nil, fmt.Errorf("output_shape %v for %d spatial axes", outShape, rank)
	}
	auto := n.AttrStr("auto_pad", "NOTSET")
	for i := range rank {
		if geo.In[i] < 0 || geo.Kernel[i] < 0 {
			geo.Out[i] = -1
			if outShape != nil && outShape[i] >= 0 && outShape[i] <= maxWindow {
				geo.Out[i] = int(outShape[i])
			}
			continue
		}
		full := geo.Stride[i]*(geo.In[i]-1) + geo.OutputPadding[i] + geo.extent(i)
		switch {
		case outShape != nil:
			if outShape[i] < 0 || outShape[i] > maxWindow {
				return nil, fmt.Errorf("output_shape %v is out of range", outShape)
			}
			geo.Out[i] = int(outShape[i])
		case auto == "SAME_UPPER" || auto == "SAME_LOWER":
			geo.Out[i] = min(geo.In[i]*geo.Stride[i], full) // ONNX's shape inference and engines add nothing that no input reaches
		default:
			if auto == "VALID" {
				geo.PadBegin[i], geo.PadEnd[i] = 0, 0
			}
			geo.Out[i] = full - geo.PadBegin[i] - geo.PadEnd[i]
			if geo.Out[i] < 0 {
				return nil, fmt.Errorf("output size %d on spatial axis %d", geo.Out[i], i)
			}
			continue
		}
		total := full - geo.Out[i]
		if total < 0 { // positions that no input reaches lie at the end
			geo.PadBegin[i], geo.PadEnd[i] = 0, total
			continue
		}
		half := total / 2
		geo.PadBegin[i], geo.PadEnd[i] = total-half, half
		if auto == "SAME_UPPER" {
			geo.PadBegin[i], geo.PadEnd[i] = half, total-half
		}
	}
	return geo, nil
}

// WindowGeometry is ConvGeometry, or ConvTransposeGeometry where n is a ConvTranspose.
func WindowGeometry(n *Node, x, w Shape) (*Geometry, error) {
	if n.Conv().Transposed {
		return ConvTransposeGeometry(n, x, w)
	}
	return ConvGeometry(n, x, w)
}

// PoolGeometry returns the window of MaxPool, AveragePool and LpPool for input x [N,C,spatial...]. With ceil_mode a window
// may not start in the padding at the end.
func PoolGeometry(n *Node, x Shape) (*Geometry, error) {
	if len(x) < 3 {
		return nil, fmt.Errorf("input %s has no spatial axes", x)
	}
	pool := n.Pool()
	if pool.Kernel == nil {
		return nil, fmt.Errorf("attribute kernel_shape is missing")
	}
	geo, err := window(n, x[2:], nil, pool.Kernel)
	if err != nil {
		return nil, err
	}
	return geo, geo.slide(n.AttrStr("auto_pad", "NOTSET"), pool.Ceil)
}

func checkConvRanks(x, w Shape) error {
	if len(x) < 3 {
		return fmt.Errorf("input %s has no spatial axes", x)
	}
	if len(w) != len(x) {
		return fmt.Errorf("weight %s and input %s differ in rank", w, x)
	}
	return nil
}

// window reads the attributes. spatial is the input's size, weight the kernel as the weight has it (nil without weight).
func window(n *Node, spatial, weight Shape, kernel []int64) (*Geometry, error) {
	rank := len(spatial)
	geo := &Geometry{In: make([]int, rank), Out: make([]int, rank), Kernel: make([]int, rank)}
	for i, d := range spatial {
		if d.N > maxWindow {
			return nil, fmt.Errorf("spatial size %d is too large", d.N)
		}
		geo.In[i] = int(d.N)
	}
	if kernel != nil && len(kernel) != rank {
		return nil, fmt.Errorf("kernel_shape %v for %d spatial axes", kernel, rank)
	}
	for i := range rank {
		k := int64(-1)
		if weight != nil {
			k = weight[i].N
		}
		if kernel != nil {
			if k >= 0 && k != kernel[i] {
				return nil, fmt.Errorf("kernel_shape %v, but the weight has kernel %s", kernel, weight)
			}
			k = kernel[i]
		}
		if k == 0 || k < 0 && kernel != nil || k > maxWindow {
			return nil, fmt.Errorf("kernel size %d on spatial axis %d", k, i)
		}
		geo.Kernel[i] = int(k)
	}
	if geo.Group = n.Conv().Group; geo.Group < 1 || geo.Group > maxWindow {
		return nil, fmt.Errorf("group %d", geo.Group)
	}
	var err error
	if geo.Stride, err = windowAttr(n, "strides", rank, 1, 1); err != nil {
		return nil, err
	}
	if geo.Dilation, err = windowAttr(n, "dilations", rank, 1, 1); err != nil {
		return nil, err
	}
	pads, err := windowAttr(n, "pads", 2*rank, 0, 0)
	if err != nil {
		return nil, err
	}
	geo.PadBegin, geo.PadEnd = pads[:rank:rank], pads[rank:]
	return geo, nil
}

// windowAttr reads a list of n numbers, each at least low; def where the attribute is absent.
func windowAttr(n *Node, name string, count, def, low int) ([]int, error) {
	out := make([]int, count)
	list := n.AttrInts(name)
	if len(list) != 0 && len(list) != count {
		return nil, fmt.Errorf("%s %v should have %d numbers", name, list, count)
	}
	for i := range out {
		out[i] = def
		if len(list) > 0 {
			if list[i] < int64(low) || list[i] > maxWindow {
				return nil, fmt.Errorf("%s %v: %d is out of range", name, list, list[i])
			}
			out[i] = int(list[i])
		}
	}
	return out, nil
}

// extent is the size of the dilated kernel on axis i.
func (geo *Geometry) extent(i int) int { return (geo.Kernel[i]-1)*geo.Dilation[i] + 1 }

// Reads reports whether position at of the input along spatial axis d is multiplied by kernel position tap for some output.
func (geo *Geometry) Reads(d, tap, at int) bool {
	if geo.OutputPadding != nil { // transposed
		to := at*geo.Stride[d] + tap*geo.Dilation[d] - geo.PadBegin[d]
		return to >= 0 && to < geo.Out[d]
	}
	from := at + geo.PadBegin[d] - tap*geo.Dilation[d]
	return from >= 0 && from%geo.Stride[d] == 0 && from/geo.Stride[d] < geo.Out[d]
}

// slide resolves the padding and computes the output's size.
func (geo *Geometry) slide(auto string, ceil bool) error {
	geo.ceil = ceil
	for i, in := range geo.In {
		stride := geo.Stride[i]
		switch auto {
		case "SAME_UPPER", "SAME_LOWER":
			geo.Out[i], geo.PadBegin[i], geo.PadEnd[i] = -1, -1, -1
			if geo.Kernel[i] == 1 { // of any size
				geo.PadBegin[i], geo.PadEnd[i] = 0, 0
			}
			if in < 0 {
				continue
			}
			geo.Out[i] = (in + stride - 1) / stride
			if geo.Kernel[i] < 0 {
				continue
			}
			total := max(0, (geo.Out[i]-1)*stride+geo.extent(i)-in)
			geo.PadBegin[i], geo.PadEnd[i] = total/2, total-total/2
			if auto == "SAME_LOWER" {
				geo.PadBegin[i], geo.PadEnd[i] = total-total/2, total/2
			}
			continue
		case "VALID":
			geo.PadBegin[i], geo.PadEnd[i] = 0, 0
		case "NOTSET", "":
		default:
			return fmt.Errorf("auto_pad %q", auto)
		}
		if in < 0 || geo.Kernel[i] < 0 {
			geo.Out[i] = -1
			continue
		}
		room := in + geo.PadBegin[i] + geo.PadEnd[i] - geo.extent(i)
		if room < 0 {
			return fmt.Errorf("window of %d does not fit %d with pads %d and %d on spatial axis %d",
				geo.extent(i), in, geo.PadBegin[i], geo.PadEnd[i], i)
		}
		out := room/stride + 1
		if ceil && auto != "VALID" {
			out = (room+stride-1)/stride + 1
			if (out-1)*stride >= in+geo.PadBegin[i] {
				out--
			}
		}
		geo.Out[i] = out
	}
	return nil
}

// dim returns the output's size on spatial axis i as a dimension, by name where the input's is a symbol.
func (geo *Geometry) dim(i int, in Dim) Dim {
	if geo.Out[i] >= 0 {
		return dimOf(geo.Out[i])
	}
	if in.Symbol == "" || geo.Kernel[i] < 0 || geo.ceil || geo.OutputPadding != nil {
		return unknownDim
	}
	stride := int64(geo.Stride[i])
	if geo.PadBegin[i] < 0 { // automatic: ceil(in / stride)
		return floorDiv(in.elem(), stride-1, stride).dim()
	}
	return floorDiv(in.elem(), int64(geo.PadBegin[i]+geo.PadEnd[i]-geo.extent(i))+stride, stride).dim()
}
