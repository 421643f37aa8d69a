package exec

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// joinInfo is what is known of a Concat of channels before anything runs: where the channels of each input begin. Convolutions
// whose results it alone reads write them there at once; the Concat copies the others.
type joinInfo struct {
	offsets  []int // by input
	channels int
}

// seat is an input of a Concat.
type seat struct{ step, input int32 }

// joint is the output of a Concat in a run before the Concat itself has run.
type joint struct {
	out    handle
	placed []bool // by input
}

// findJoins finds the Concats of channels, and the convolutions that can write into their outputs.
func (s *sessionState) findJoins() {
	s.seats = map[graph.ValueID]seat{}
	for i := range s.steps {
		n := s.steps[i].node
		if n.Op != "Concat" || !n.IsONNX() || n.Axis() != 1 {
			continue
		}
		info := &joinInfo{}
		for _, v := range n.Inputs {
			c := s.channelsOf(v)
			if c <= 0 {
				info = nil
				break
			}
			info.offsets = append(info.offsets, info.channels)
			info.channels += c
		}
		if info == nil {
			continue
		}
		s.steps[i].join = info
		for k, v := range n.Inputs {
			if _, sole := s.g.SoleUse(v); sole {
				s.seats[v] = seat{int32(i), int32(k)}
			}
		}
	}
}

// channelsOf returns the length of axis 1 of v where the weights of convolutions before it say so, else 0.
func (s *sessionState) channelsOf(v graph.ValueID) int {
	for v != graph.NoValue {
		p := s.g.Producer(v)
		if p == graph.NoNode {
			return 0
		}
		n := s.g.Node(p)
		switch {
		case !n.IsONNX():
			return 0
		case n.Op == "Conv":
			if w := s.g.Const(n.Inputs[1]); w != nil && len(w.Shape) > 2 {
				return w.Shape[0]
			}
			return 0
		case n.Op == "Concat":
			i := s.stepOf[p]
			if s.steps[i].join == nil {
				return 0
			}
			return s.steps[i].join.channels
		case n.Op == "Relu" || n.Op == "Clip" || n.Op == "MaxPool" || n.Op == "AveragePool" || n.Op == "BatchNormalization":
			v = n.Inputs[0]
		default:
			return 0
		}
	}
	return 0
}

// placed returns where in the output of a Concat the result of this call belongs, of the given shape: the data from its first
// element on, and how far neighbouring positions lie apart. It returns nil if it is to have memory of its own. Hooks, kept
// values and restarts need it as a tensor.
func (c *call) placed(shape []int) (data []float32, apart int, err error) {
	r := c.run
	p, ok := r.s.seats[r.result]
	if !ok || r.apart || r.watched[r.result] || r.looks[r.result] || len(r.stages) > 0 || r.mem.pool != nil || len(shape) < 3 {
		return nil, 0, nil
	}
	st, j := &r.s.steps[p.step], &r.joints[p.step]
	if st.join.offset(p.input, shape[1]) < 0 {
		return nil, 0, nil
	}
	if j.out.t == nil {
		r.whole = append(r.whole[:0], shape...)
		r.whole[1] = st.join.channels
		t, buf, err := r.mem.alloc(tensor.Float32, r.whole, tensor.ChannelsLast)
		if err != nil {
			return nil, 0, err
		}
		if !r.mem.extend(buf, p.step) {
			return nil, 0, nil
		}
		j.out, j.placed = handle{t: t, buf: buf}, resize(j.placed, len(st.node.Inputs))
		clear(j.placed)
	}
	if t := j.out.t; t.Shape[0] != shape[0] || !slices.Equal(t.Shape[2:], shape[2:]) {
		return nil, 0, nil // the Concat will refuse it
	}
	j.placed[p.input] = true
	view := r.header()
	view.DType, view.Layout, view.Data = tensor.Float32, tensor.ChannelsLast, j.out.t.Data
	view.Shape = append(view.Shape[:0], shape...)
	c.setOut(0, handle{t: view, buf: j.out.buf})
	return j.out.t.F32()[st.join.offsets[p.input]:], st.join.channels, nil
}

// offset returns where the channels of input i begin, -1 if there are not so many of them.
func (j *joinInfo) offset(i int32, channels int) int {
	end := j.channels
	if int(i)+1 < len(j.offsets) {
		end = j.offsets[i+1]
	}
	if end-j.offsets[i] != channels {
		return -1
	}
	return j.offsets[i]
}

// finishJoin completes the output of a Concat of which parts have been written. It returns false if there are none.
func (c *call) finishJoin() (bool, error) {
	j := &c.run.joints[c.index]
	if j.out.t == nil {
		return false, nil
	}
	if !slices.Equal(j.out.t.Shape, c.outShape(0)) { // weights that are fed may differ from those that the graph has
		return false, fmt.Errorf("inputs of shape %v where the weights say %v", c.outShape(0), j.out.t.Shape)
	}
	c.setOut(0, j.out)
	channels := c.step.join.channels
	for i, done := range j.placed {
		if done {
			continue
		}
		x, to := c.last(i), j.out.t.F32()[c.step.join.offsets[i]:]
		for n, src := x.Shape[1], x.F32(); len(src) > 0; src = src[n:] {
			copy(to[:n], src)
			if len(src) > n {
				to = to[channels:]
			}
		}
	}
	return true, nil
}
