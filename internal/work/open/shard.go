package open

import (
	"fmt"
	"strconv"
	"strings"

	"qwb/internal/work/fault"
)

// Shard is one part of a data set that is worked on in parts: part Index (from 1) of Of, every Of-th sample. The zero value is no part.
type Shard struct{ Index, Of int }

// MaxShards bounds how many parts there are.
const MaxShards = 1 << 16

// ParseShard reads I/N, for example 1/4.
func ParseShard(s string) (Shard, error) {
	if s == "" {
		return Shard{}, nil
	}
	a, b, ok := strings.Cut(s, "/")
	i, err := strconv.Atoi(a)
	n, err2 := strconv.Atoi(b)
	if !ok || err != nil || err2 != nil || i < 1 || i > n || n > MaxShards {
		return Shard{}, fault.Usagef("--shard %q: I/N, part I of N, from 1/N to N/N", s)
	}
	return Shard{i, n}, nil
}

// String is what ParseShard reads.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Of) }
