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
	numRoles
)

var roleNames = [numRoles]string{
	"embedding", "attention norm", "query", "query bias", "key", "key bias", "value", "value bias", "output",
	"feed-forward norm", "gate", "up", "down", "final norm", "classifier",
	"query norm", "key norm", "output bias", "norm after attention", "norm after feed-forward",
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
}

func (p Part) String() string {
	if p.Layer < 0 {
		return p.Role.String()
	}
	return fmt.Sprintf("%s of layer %d", p.Role, p.Layer)
}

// Vector reports whether the role is a vector (a norm or a bias): those are never quantized.
func (r Role) Vector() bool {
	switch r {
	case AttentionNorm, FeedNorm, FinalNorm, QueryBias, KeyBias, ValueBias, QueryNorm, KeyNorm, OutputBias, AfterAttention, AfterFeed:
		return true
	}
	return false
}

// layerRoles are the roles within a layer in the order of computation.
func (c *Config) layerRoles() []Role {
	all := []Role{AttentionNorm, Query, QueryBias, QueryNorm, Key, KeyBias, KeyNorm, Value, ValueBias, Output, OutputBias, AfterAttention,
		FeedNorm, Gate, Up, Down, AfterFeed}
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
		}
		return false
	})
}

// Parts lists everything a model of this shape consists of, in the order of computation.
func (c *Config) Parts() []Part {
	parts := []Part{{Embedding, -1}}
	for l := range c.Layers {
		for _, r := range c.layerRoles() {
			parts = append(parts, Part{r, l})
		}
	}
	parts = append(parts, Part{FinalNorm, -1})
	if !c.Tied {
		parts = append(parts, Part{Classifier, -1})
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
	}
	return 1, c.Dim
}
