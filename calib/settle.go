package calib

import (
	"fmt"

	"qwb/quantizer/tqc"
)

// Drift says how much the range of a tensor differs between two halves of the samples.
type Drift struct {
	Tensor string
	Lo, Hi [2]float64 // minimum and maximum of each half
	Share  float64    // the larger of the two differences, as a share of the whole range
}

// Drifts lists the tensors whose minimum or maximum differs between the two halves of the samples (by the parity of their
// hashes) by more than share of the range, in order of name. Two halves that agree do not prove that the rest of the world looks
// like them, but halves that differ prove that the other half of the data moved the range. Without samples in both halves
// there is nothing to compare, and enough is false.
func (s *Stats) Drifts(share float64) (list []Drift, enough bool) {
	var halves [2]int
	for _, h := range s.hashes {
		halves[h.half()]++
	}
	if halves[0] == 0 || halves[1] == 0 {
		return nil, false
	}
	for _, name := range s.Names() {
		t := s.tensors[name]
		a, b, all := t.Halves[0], t.Halves[1], t.State.Extent()
		if a.Empty() || b.Empty() || all.Min == all.Max {
			continue
		}
		d := Drift{Tensor: name, Lo: [2]float64{float64(a.Min), float64(b.Min)}, Hi: [2]float64{float64(a.Max), float64(b.Max)}}
		width := float64(all.Max) - float64(all.Min)
		d.Share = max(abs(d.Lo[0]-d.Lo[1]), abs(d.Hi[0]-d.Hi[1])) / width
		if d.Share > share {
			list = append(list, d)
		}
	}
	return list, true
}

func abs(x float64) float64 { return max(x, -x) }

// DefaultDrift is the share of the range by which two halves may differ without a warning.
const DefaultDrift = 0.2

// Settled returns a warning where the ranges have not converged: tensors whose halves differ by more than share
// (0 for DefaultDrift), or too few samples to tell.
func (s *Stats) Settled(share float64) []tqc.Warning {
	if share == 0 {
		share = DefaultDrift
	}
	list, enough := s.Drifts(share)
	if !enough {
		return []tqc.Warning{{Text: fmt.Sprintf("%d samples are too few to tell whether the ranges have converged", s.Samples()),
			Value: float64(s.Samples())}}
	}
	if len(list) == 0 {
		return nil
	}
	worst := list[0]
	for _, d := range list {
		if d.Share > worst.Share {
			worst = d
		}
	}
	return []tqc.Warning{{Node: worst.Tensor, Value: worst.Share, Text: fmt.Sprintf(
		"ranges have not converged: in %d of %d tensors they differ by more than %.0f %% between two halves of the %d samples (here %.0f %%); "+
			"add samples",
		len(list), len(s.tensors), 100*share, s.Samples(), 100*worst.Share)}}
}
