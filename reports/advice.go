package reports

import (
	"fmt"
	"strings"

	"qwb/analysis"
	"qwb/internal/plain"
)

// adviceText writes what is wrong and what helps, the most helpful first.
func adviceText(t *tables, list []analysis.Advice) {
	if len(list) == 0 {
		return
	}
	t.printf("Advice, the most helpful first\n")
	for i := range list {
		a := &list[i]
		t.printf("  %d. %s%s: %s.\n", i+1, a.Cause, inNodes(a.Nodes), shortenEnd(a.Evidence, 400))
		if a.Command != "" {
			t.printf("       %s\n", a.Command)
		}
		if e := effect(a); e != "" {
			t.printf("       %s\n", e)
		}
		for _, other := range a.Others {
			t.printf("     or %s\n", other)
		}
	}
	t.printf("\n")
}

// inNodes names the operators of an advice, at most three.
func inNodes(nodes []string) string {
	if len(nodes) == 0 {
		return ""
	}
	var names []string
	for _, n := range nodes[:min(len(nodes), 3)] {
		names = append(names, shorten(n, 36))
	}
	text := " in " + strings.Join(names, ", ")
	if n := len(nodes) - 3; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// effect is what an advice does to the error of the outputs: as predicted, and as measured where it was tried.
func effect(a *analysis.Advice) string {
	var parts []string
	if a.Before != nil && a.Predicted != nil {
		parts = append(parts, fmt.Sprintf("NSR of the outputs, predicted: %s -> %s", small(*a.Before), small(*a.Predicted)))
	}
	if m := a.Trial; m != nil && m.Failed != "" {
		parts = append(parts, "tried: "+m.Failed)
	} else if m != nil {
		change := ""
		if m.ChangeError != nil {
			change = ", change " + WithError(m.Change, m.ChangeError)
		}
		parts = append(parts, fmt.Sprintf("measured on %s: %s -> %s%s", plain.Count(m.Samples, heldOut(m)+"sample"),
			WithError(m.Before.NSR, m.Before.NSRError), WithError(m.Measured.NSR, m.Measured.NSRError), change))
	}
	return strings.Join(parts, "; ")
}

// heldOut says what the samples of a trial are worth.
func heldOut(m *analysis.CureTrial) string {
	switch m.HeldOut {
	case analysis.HeldOutUnseen:
		return "unseen "
	case analysis.HeldOutHalf:
		return "held-out "
	}
	return ""
}
