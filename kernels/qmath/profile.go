package qmath

import (
	"fmt"
	"strings"
)

// Profile is the arithmetic of one target: how the int32 accumulator of a layer becomes a code of its output, and how the other
// quantized operators are computed. Profiles() lists all profiles, docs/profiles.md describes them.
//
// A profile is plain data. Prepare turns the float32 scales of a channel into a Multiplier, and Requantize applies it. Add,
// Mul, Rescale, Average, Table, Softmax and Border prepare the other operators.
type Profile struct {
	Name    string
	Doc     ProfileDoc
	Scaling // how an accumulator is scaled and rounded
	// Family says which target defines the operators other than convolution and matrix product.
	Family Family
	// Saturates says that the products of two neighbouring taps are added with saturation to int16 before they reach the
	// int32 accumulator (VPMADDUBSW). The sum is the kernel's business; Requantize is not affected.
	Saturates bool
	// Double says that products of a matrix with constant weights (FULLY_CONNECTED) are scaled by Multiplier.Double.
	Double bool

	// Own: the profile is made of an Arithmetic, which has the rest; see there.
	Own               bool
	Quantize          Rounding
	Accumulator, Bias int
	Step              int
	Nearest           bool
}

// Unsaturated returns the profile that computes as p does with sums that are exact: p itself unless it saturates.
func (p Profile) Unsaturated() Profile {
	for _, q := range Profiles() {
		if p.Saturates && !q.Saturates && q.Scaling == p.Scaling && q.Family == p.Family {
			return q
		}
	}
	return p
}

// ProfileDoc is a profile in words: one row of docs/profiles.md.
type ProfileDoc struct {
	Formula   string // the code y of an accumulator acc
	Factor    string // how the multiplier comes from the scales
	Rounding  string
	ZeroPoint string // where the zero point is added
	Exact     string // what it equals bit for bit
	Differs   string // what it does not
}

// Family is the origin of the operators other than convolution and matrix product.
type Family uint8

const (
	FloatFamily Family = iota // dequantize, operator in float32, quantize: an unfused Q/DQ graph
	TFLite                    // TFLite's reference kernels
	TVM                       // relay's QNN operators
	ORT                       // ONNX Runtime's QLinear operators, x64
	XNNPACK                   // XNNPACK's integer kernels
	PowerOfTwo                // shifts only: accumulators aligned exactly, rounded once
)

var familyNames = [...]string{"float", "TFLite", "TVM", "ONNX Runtime", "XNNPACK", "power of two"}

func (f Family) String() string {
	if int(f) < len(familyNames) {
		return familyNames[f]
	}
	return fmt.Sprintf("family(%d)", uint8(f))
}

// FloatBias reports whether the bias stays float32 and is added after scaling. The bias of the other profiles is int32,
// scale s_x*s_w, and part of the accumulator.
func (p Profile) FloatBias() bool {
	return p.Form == FloatDivide || p.Form == FloatTwice || p.Form == FloatAfter && p.Family == FloatFamily
}

// FusesAdd reports whether the target adds a residual before it rounds, see RequantizeAdd.
func (p Profile) FusesAdd() bool { return p.FloatBias() }

// ProfileNamed returns the profile of that name; the error lists the names.
func ProfileNamed(name string) (Profile, error) {
	var names []string
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("unknown arithmetic profile %q; known: %s", name, strings.Join(names, ", "))
}
