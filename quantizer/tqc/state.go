package tqc

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// State is the life of a slot. The names are PPQ's. Only Activated and Passive quantize when the graph runs. Nothing in qwb replaces
// parameters by their fake-quantized values (simulation and export take the codes, so that no weight is rounded twice): Baked and
// PassiveBaked are for programs that do, through Set.Advance, and for plans that say so; slots in them are read, kept and not quantized.
type State uint8

const (
	Initial      State = iota // configured, waiting for a range
	Activated                 // has its own scale and quantizes
	Baked                     // a parameter that was replaced by its fake-quantized value
	Overlapped                // another slot quantizes this tensor
	PassiveInit               // will borrow a scale that is not there yet
	Passive                   // quantizes with a borrowed scale
	PassiveBaked              // Passive, and the parameter was replaced
	FP32                      // never quantized
)

var stateNames = [...]string{"INITIAL", "ACTIVATED", "BAKED", "OVERLAPPED", "PASSIVE_INIT", "PASSIVE", "PASSIVE_BAKED", "FP32"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("STATE(%d)", uint8(s))
}

func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s *State) UnmarshalText(b []byte) error {
	for i, name := range stateNames {
		if name == string(b) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("unknown state %q", b)
}

// Quantizes reports whether a slot in this state quantizes when the graph runs.
func (s State) Quantizes() bool { return s == Activated || s == Passive }

// legal[from] lists the states a slot may go to.
var legal = [...][]State{
	Initial:      {Activated, Overlapped, PassiveInit, Passive, FP32},
	Activated:    {Baked, Overlapped, PassiveInit, Passive, FP32, Initial},
	Baked:        {Activated},
	Overlapped:   {FP32, Initial},
	PassiveInit:  {Passive, Overlapped, FP32, Initial},
	Passive:      {PassiveBaked, Overlapped, FP32, PassiveInit, Initial},
	PassiveBaked: {Passive},
	FP32:         {Initial},
}

// Domain says where a node runs.
type Domain uint8

const (
	DomainFP32    Domain = iota // as a float island
	DomainInt                   // quantized
	DomainSOI                   // shape or index computation: never quantized, runs on the host
	DomainFP16                  // as a float island in half precision
	DomainBF16                  // in bfloat16
	DomainTF32                  // with factors rounded to TF32
	DomainWeights               // as a float island, of which the weights alone are quantized
)

// domains is indexed by Domain.
var domains = [...]struct {
	name      string
	float     bool
	precision qmath.Precision
}{
	DomainFP32: {"FP32", true, qmath.FP32},
	DomainInt:  {name: "INT8"},
	DomainSOI:  {name: "SOI"},
	DomainFP16: {"FP16", true, qmath.FP16},
	DomainBF16: {"BF16", true, qmath.BF16},
	DomainTF32: {"TF32", true, qmath.TF32},

	DomainWeights: {"WEIGHTS", true, qmath.FP32},
}

// Float reports whether a node of the domain is a float island.
func (d Domain) Float() bool { return int(d) < len(domains) && domains[d].float }

// Quantizes reports whether tensors of a node of the domain may be quantized.
func (d Domain) Quantizes() bool { return d == DomainInt || d == DomainWeights }

// Precision is what an island of the domain is computed in. FP32 for other domains.
func (d Domain) Precision() qmath.Precision { return domains[d].precision }

// Half is the type of the tensors of an island that is computed in fp16 or bf16, Undefined for other domains.
func (d Domain) Half() tensor.DType {
	switch d {
	case DomainFP16:
		return tensor.Float16
	case DomainBF16:
		return tensor.BFloat16
	}
	return tensor.Undefined
}

// FloatDomain is the domain of islands that are computed in a precision.
func FloatDomain(p qmath.Precision) Domain {
	for d := range domains {
		if domains[d].float && domains[d].precision == p {
			return Domain(d)
		}
	}
	return DomainFP32
}

func (d Domain) String() string {
	if int(d) < len(domains) {
		return domains[d].name
	}
	return fmt.Sprintf("DOMAIN(%d)", uint8(d))
}

func (d Domain) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d *Domain) UnmarshalText(b []byte) error {
	for i := range domains {
		if domains[i].name == string(b) {
			*d = Domain(i)
			return nil
		}
	}
	return fmt.Errorf("unknown domain %q", b)
}
