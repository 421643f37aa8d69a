package decision

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// InForce says of each decision of a list whether it still counts. One that was taken back does not (Unset; taking the taking back
// back makes it count again), nor do the decisions of a calibration before the last one: calibrating again decides all of that anew.
func InForce(list []Decision) []bool {
	in := make([]bool, len(list))
	for i := range in {
		in[i] = true
	}
	for i := len(list) - 1; i >= 0; i-- { // the last word is said first
		if in[i] {
			for _, n := range list[i].Unset {
				if n >= 1 && n <= i {
					in[n-1] = false
				}
			}
		}
	}
	last := -1 // the last calibration as a whole
	for i := range list {
		if list[i].whole() {
			last = i
		}
	}
	for i := range list[:max(last, 0)] {
		if list[i].By == ByCalibrate {
			in[i] = false
		}
	}
	return in
}

// whole reports whether a decision is the one that a calibration begins with.
func (d *Decision) whole() bool { return d.By == ByCalibrate && len(d.Select) == 0 }

// Default reports whether a decision is one of those that calibrate or import made for the whole plan; they are replaced by
// calibrating again and cannot be taken back.
func (d *Decision) Default() bool {
	return len(d.Select) == 0 && len(d.Unset) == 0 && d.Overlay == "" && d.Method == ""
}

// CheckList reports the first thing that is wrong with a list of decisions, whatever the model.
func CheckList(list []Decision) error {
	for i := range list {
		if err := list[i].Check(); err != nil {
			return fmt.Errorf("#%d: %w", i+1, err)
		}
		for _, n := range list[i].Unset {
			switch {
			case n > i:
				return fmt.Errorf("#%d takes back #%d, which does not come before it", i+1, n)
			case list[n-1].Default():
				return fmt.Errorf("#%d takes back #%d, a default: calibrate decides those anew", i+1, n)
			}
		}
	}
	return nil
}

// After identifies what was in force before decision n (from 0) of a list, together with the inputs of the plan: what Decision.After
// records. Decisions that are taken back or replaced later do not count, so that evidence which was measured with them goes stale.
func After(list []Decision, n int, inputs string) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "qwb decisions\n%s\n", inputs)
	in := InForce(list)
	for i := range list[:n] {
		if !in[i] || len(list[i].Unset) > 0 {
			continue
		}
		b, err := list[i].Encode()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s\n", b)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Stale lists, from 0, the decisions in force whose evidence was gathered under other decisions or other inputs.
func Stale(list []Decision, inputs string) ([]int, error) {
	var stale []int
	for i, counts := range InForce(list) {
		if !counts || list[i].After == "" {
			continue
		}
		now, err := After(list, i, inputs)
		if err != nil {
			return nil, err
		}
		if now != list[i].After {
			stale = append(stale, i)
		}
	}
	return stale, nil
}
