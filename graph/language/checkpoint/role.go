package checkpoint

import (
	"fmt"
	"slices"
)

// Role is what a matrix or vector does in a model.
type Role uint8

const (
	Embedding      Role = iota // Vocab x Dim
	AttentionNorm              // Dim
	Query                      // QueryDim x Dim
	QueryBias                  // QueryDim
	Key                        // KVDim x Dim
	KeyBias                    // KVDim
	Value                      // KVDim x Dim
	ValueBias                  // KVDim
	Output                     // Dim x QueryDim
	FeedNorm                   // Dim
	Gate                       // Hidden x Dim
	Up                         // Hidden x Dim
	Down                       // Dim x Hidden
	FinalNorm                  // Dim
	Classifier                 // Vocab x Dim; there is none where it is tied
	QueryNorm                  // HeadDim, of every head
	KeyNorm                    // HeadDim, of every head
	OutputBias                 // Dim
	AfterAttention             // Dim, a norm
	AfterFeed                  // Dim, a norm
	Router                     // Experts x Dim
	ExpertGate                 // ExpertHidden x Dim, of each expert
	ExpertUp                   // ExpertHidden x Dim
	ExpertDown                 // Dim x ExpertHidden
	SharedRouter               // Dim
	SharedGate                 // SharedHidden x Dim
	SharedUp                   // SharedHidden x Dim
	SharedDown                 // Dim x SharedHidden
	numRoles
)

var roleNames = [numRoles]string{
	"embedding", "attention norm", "query", "query bias", "key", "key bias", "value", "value bias", "output",
	"feed-forward norm", "gate", "up", "down", "final norm", "classifier",
	"query norm", "key norm", "output bias", "norm after attention", "norm after feed-forward",
	"router", "expert gate", "expert up", "expert down", "router of shared expert", "gate of shared expert", "up of shared expert",
	"down of shared expert",
}

func (r Role) String() string {
	if r < numRoles {
		return roleNames[r]
	}
	return fmt.Sprintf("role %d", r)
}

// Part is one matrix or vector of a model.
type Part struct {
	Role  Role
	Layer int // from 0; -1 for what is not part of a layer
	// Expert is whose it is, from 0; 0 also for what is no expert's.
	Expert int
}

func (p Part) String() string {
	if p.Layer < 0 {
		return p.Role.String()
	}
	if p.Role.OfExpert() {
		return fmt.Sprintf("%s %d of layer %d", p.Role, p.Expert, p.Layer)
	}
	return fmt.Sprintf("%s of layer %d", p.Role, p.Layer)
}

// OfExpert reports whether each expert has a matrix of the role.
func (r Role) OfExpert() bool { return r >= ExpertGate && r <= ExpertDown }

// Float reports whether the role is never quantized: it is a vector or the router of experts.
func (r Role) Float() bool { return r.Vector() || r == Router }

// Vector reports whether the role is a vector (a norm or a bias).
func (r Role) Vector() bool {
	switch r {
	case AttentionNorm, FeedNorm, FinalNorm, QueryBias, KeyBias, ValueBias, QueryNorm, KeyNorm, OutputBias, AfterAttention, AfterFeed,
		SharedRouter:
		return true
	}
	return false
}

// layerRoles are the roles within a layer in the order of computation; those of experts stand once.
func (c *Config) layerRoles(layer int) []Role {
	all := []Role{AttentionNorm, Query, QueryBias, QueryNorm, Key, KeyBias, KeyNorm, Value, ValueBias, Output, OutputBias, AfterAttention,
		FeedNorm, Gate, Up, Down, Router, ExpertGate, ExpertUp, ExpertDown, SharedRouter, SharedGate, SharedUp, SharedDown, AfterFeed}
	return slices.DeleteFunc(all, func(r Role) bool {
		switch r {
		case QueryBias, KeyBias, ValueBias:
			return !c.Biased()
		case QueryNorm, KeyNorm:
			return !c.HeadNorm
		case OutputBias:
			return !c.OutputBias
		case AfterAttention, AfterFeed:
			return !c.AfterNorm
		case Gate, Up, Down:
			return c.Routed(layer)
		case Router, ExpertGate, ExpertUp, ExpertDown:
			return !c.Routed(layer)
		case SharedRouter, SharedGate, SharedUp, SharedDown:
			return !c.Routed(layer) || c.SharedHidden == 0
		}
		return false
	})
}

// Parts lists everything a model of this shape consists of, in the order of computation.
func (c *Config) Parts() []Part {
	parts := []Part{{Role: Embedding, Layer: -1}}
	for l := range c.Layers {
		for _, r := range c.layerRoles(l) {
			switch {
			case !r.OfExpert():
				parts = append(parts, Part{Role: r, Layer: l})
			case r == ExpertGate:
				for e := range c.Experts {
					parts = append(parts, Part{ExpertGate, l, e}, Part{ExpertUp, l, e}, Part{ExpertDown, l, e})
				}
			}
		}
	}
	parts = append(parts, Part{Role: FinalNorm, Layer: -1})
	if !c.Tied {
		parts = append(parts, Part{Role: Classifier, Layer: -1})
	}
	return parts
}

// Shape returns rows and columns of a role; a vector has one row.
func (c *Config) Shape(r Role) (rows, cols int) {
	switch r {
	case Embedding, Classifier:
		return c.Vocab, c.Dim
	case Query:
		return c.QueryDim(), c.Dim
	case Key, Value:
		return c.KVDim(), c.Dim
	case Output:
		return c.Dim, c.QueryDim()
	case Gate, Up:
		return c.Hidden, c.Dim
	case Down:
		return c.Dim, c.Hidden
	case QueryBias:
		return 1, c.QueryDim()
	case KeyBias, ValueBias:
		return 1, c.KVDim()
	case QueryNorm, KeyNorm:
		return 1, c.HeadDim
	case Router:
		return c.Experts, c.Dim
	case ExpertGate, ExpertUp:
		return c.ExpertHidden, c.Dim
	case ExpertDown:
		return c.Dim, c.ExpertHidden
	case SharedGate, SharedUp:
		return c.SharedHidden, c.Dim
	case SharedDown:
		return c.Dim, c.SharedHidden
	}
	return 1, c.Dim
}
