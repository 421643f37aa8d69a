package analysis

import "qwb/graph"

// Roofline is what a machine can do at most, as measured, and what that means for a model. Nothing of it is a promise: a node takes
// no less than Seconds where it is not fused with another, and how much INT8 can gain is bounded by moving a quarter of the bytes and by
// the integer peak.
type Roofline struct {
	Device      string      `json:"device,omitempty"` // whose file says it; empty: it was measured here
	Threads     int         `json:"threads"`
	FloatPeak   string      `json:"float_peak"` // the loop that was measured
	FloatGOPS   float64     `json:"float_gops"` // a multiply-add is two operations
	IntegerPeak string      `json:"int8_peak"`
	IntegerGOPS float64     `json:"int8_gops"`
	Read        []ReadSpeed `json:"read"` // by ascending size
	// Seconds is the least time of all nodes one after another, in float32; Gain by what factor INT8 can shorten it at most.
	Seconds float64 `json:"seconds"`
	Gain    float64 `json:"int8_gain"`
	Open    int     `json:"open,omitempty"` // nodes that are not in them: their sizes are not known, or they run graphs of their own
}

// ReadSpeed is how fast a buffer of a size is read.
type ReadSpeed struct {
	Bytes int     `json:"bytes"`
	GBps  float64 `json:"gbps"`
}

// speed is the bandwidth for data of a size, in GB/s: that of the smallest buffer measured which is no smaller.
func (r *Roofline) speed(bytes float64) float64 {
	for _, s := range r.Read {
		if bytes <= float64(s.Bytes) {
			return s.GBps
		}
	}
	if len(r.Read) == 0 {
		return 0
	}
	return r.Read[len(r.Read)-1].GBps
}

// least is the time that operations and bytes take at least, and whether it is memory that bounds it.
func (r *Roofline) least(ops, bytes, gops float64) (seconds float64, memory bool) {
	var compute, move float64
	if gops > 0 {
		compute = ops / gops / 1e9
	}
	if s := r.speed(bytes); s > 0 {
		move = bytes / s / 1e9
	}
	return max(compute, move), move >= compute
}

// isView reports whether a node takes no time: its elements lie where those of its input do, or follow from shapes.
func isView(n *graph.Node) bool {
	return n.HandsOnInOrder() || n.IsONNX() && (n.Op == "Shape" || n.Op == "Size" || n.Op == "Constant")
}

// SetRoofline adds to every node what bounds it on a machine, its least time and what INT8 can gain there at most, and the totals.
// Nodes that move no bytes, or are views, whose shapes are not known or that run graphs of their own have none of it;
// INT8 gains nothing where no float32 is moved.
func (r *Inspection) SetRoofline(roof Roofline) {
	r.Roofline = &roof
	quantized := 0.0
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if n.Bytes == 0 && !n.open || n.view {
			continue
		}
		if n.open || n.outer {
			r.Roofline.Open++
			continue
		}
		ops, bytes := 2*float64(n.MACs), float64(n.Bytes)
		seconds, memory := r.Roofline.least(ops, bytes, roof.FloatGOPS)
		small, gops := bytes, roof.FloatGOPS
		if n.floatBytes > 0 {
			small, gops = bytes-0.75*float64(n.floatBytes), max(roof.IntegerGOPS, roof.FloatGOPS)
		}
		codes, _ := r.Roofline.least(ops, small, gops)
		codes = min(codes, seconds)
		if n.Bound = "compute"; memory {
			n.Bound = "memory"
		}
		n.Seconds, n.Gain = seconds, 1
		if codes > 0 {
			n.Gain = seconds / codes
		}
		r.Roofline.Seconds += seconds
		quantized += codes
	}
	r.Roofline.Gain = 1
	if quantized > 0 {
		r.Roofline.Gain = r.Roofline.Seconds / quantized
	}
}
