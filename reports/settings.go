package reports

import (
	"fmt"
	"strconv"

	"qwb/analysis"
)

// settingID names the row of operator i in the table of settings.
func settingID(i int) string { return "node-" + strconv.Itoa(i+1) }

// scales writes the scale of a tensor, or the smallest and the largest of several and how many there are.
func scales(s analysis.SlotSetting) string {
	lo, hi := Number(float64(s.Scale[0])), Number(float64(s.Scale[1]))
	switch {
	case s.Scales == 0:
		return "–"
	case s.Scales == 1:
		return lo
	}
	return fmt.Sprintf("%s … %s (%d)", lo, hi, s.Scales)
}

// zeroPoints writes the zero point of a tensor, or the smallest and the largest of several.
func zeroPoints(s analysis.SlotSetting) string {
	switch {
	case s.Scales == 0:
		return "–"
	case s.ZeroPoint[0] == s.ZeroPoint[1]:
		return strconv.Itoa(int(s.ZeroPoint[0]))
	}
	return fmt.Sprintf("%d … %d", s.ZeroPoint[0], s.ZeroPoint[1])
}
