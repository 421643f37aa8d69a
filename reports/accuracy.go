package reports

import (
	"fmt"
	"io"
	"math"
	"strings"

	"qwb/analysis"
	"qwb/internal/plain"
)

// AccuracyText writes how good the answers are and, for a quantized mode, what changed against float.
func AccuracyText(w io.Writer, r *analysis.Accuracy) error {
	t := &tables{w: w}
	if r.Counts != nil {
		countsTable(t, r)
	}
	if r.Scores != nil {
		if r.Counts != nil {
			t.printf("\n")
		}
		scoresTable(t, r)
	}
	if r.Scores != nil || r.Counts == nil {
		noiseText(t, r)
	}
	if r.Noise != nil {
		for _, line := range r.Headlines {
			t.printf("%s\n", line)
		}
		stepsText(t, r.Steps)
	}
	if r.Placed != nil {
		t.printf("\n")
		placedTable(t, r.Placed)
	}
	return t.err
}

func countsTable(t *tables, r *analysis.Accuracy) {
	t.begin(plain.Count(r.N, "sample"), "mode", "top-1", "", "top-5", "")
	row := func(mode string, c analysis.Counts) {
		t.row(mode, fmt.Sprint(c.Top1), percent(float64(c.Top1)/float64(r.N)), fmt.Sprint(c.Top5), percent(float64(c.Top5)/float64(r.N)))
	}
	if r.Change != nil {
		row("fp32", analysis.Counts{Top1: r.FloatTop1, Top5: r.FloatTop5})
	}
	if r.Beside != nil {
		row("sim", r.Beside.Counts)
	}
	if r.Base != nil {
		row("int8 "+r.Base.Profile, r.Base.Counts)
	}
	row(strings.TrimSpace(r.Mode+" "+r.Profile), *r.Counts)
	t.end()
	if r.Change != nil {
		t.printf("top-1 drop from fp32: %.2f ± %.2f pp%s; %d of %d predictions changed (%s)\n", r.Drop, r.DropError,
			insignificant(r.Drop, r.DropError), r.Flips, r.N, percent(r.FlipRate))
	}
	if r.Beside != nil {
		t.printf("INT8 and simulated predictions differ on %d of %d samples\n", r.Beside.Flips, r.N)
	}
	if r.Base != nil {
		t.printf("top-1 drop from profile %s: %.2f ± %.2f pp%s; %d of %d predictions differ\n", r.Base.Profile, r.Base.Lost, r.Base.LostError,
			insignificant(r.Base.Lost, r.Base.LostError), r.Base.Flips, r.N)
	}
}

// scoresTable writes a row for each metric.
func scoresTable(t *tables, r *analysis.Accuracy) {
	t.begin(plain.Count(r.N, "sample"), "metric", "against", "fp32", "sim", strings.TrimSpace(r.Mode+" "+r.Profile), "drop from fp32")
	for _, s := range r.Scores {
		cells := []string{s.Name, s.Against, "", "", number(s.Value), ""}
		if r.Mode != "fp32" {
			cells[2], cells[5] = number(s.Float), DropText(s)
		}
		if s.Sim != nil {
			cells[3] = number(s.Sim)
		}
		t.row(cells...)
	}
	t.end()
	if r.Counts == nil && r.Flipped != nil {
		t.printf("%d of %d predictions changed (%s)\n", r.Flips, r.N, percent(r.FlipRate))
	}
}

// noiseText says how far the outputs are from those of float.
func noiseText(t *tables, r *analysis.Accuracy) {
	if r.Noise != nil {
		if c := r.Noise.Centred; c != nil {
			simulated := ""
			if r.Mode == "int8" {
				simulated = ", simulated"
			}
			t.printf("NSR of the outputs%s: %s (class scores before Softmax, without their mean); plain, after Softmax: %s\n", simulated,
				WithError(c.NSR, c.NSRError), WithError(r.Noise.NSR.NSR, r.Noise.NSRError))
		} else {
			name, of := "plain NSR", "the outputs"
			if r.Mismatches {
				name = "share of elements that differ"
			}
			if len(r.At) > 0 {
				of = strings.Join(r.At, ", ") + ", simulated (in front of what has as many elements as its numbers say)"
			}
			t.printf("%s of %s: %s\n", name, of, WithError(r.Noise.NSR.NSR, r.Noise.NSRError))
		}
		if s := analysis.WorstSlice(r.Slices, r.Noise.NSR.NSR); s != nil {
			t.printf("of part %s of output %s: %s\n", s.Name, s.Output, WithError(s.NSR, s.NSRError))
		}
	}
}

// DropText is how much worse a score is, with its standard error where there is one.
func DropText(s analysis.Score) string {
	if s.Drop == nil {
		return "-"
	}
	format, unit := "%.4f", ""
	if s.Percent {
		format, unit = "%.2f", " pp"
	}
	text := fmt.Sprintf(format, *s.Drop)
	if s.DropError == nil {
		return text + unit
	}
	return text + " ± " + fmt.Sprintf(format, *s.DropError) + unit + insignificant(*s.Drop, *s.DropError)
}

// number is a score, "-" where it is undefined.
func number(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *x)
}

// insignificant says of a difference that it lies within twice its standard error.
func insignificant(x, err float64) string {
	if x == 0 || math.Abs(x) > 2*err {
		return ""
	}
	return " (not significant)"
}
