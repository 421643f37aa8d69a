package data

import "fmt"

// Finding is something about data that is wrong, or looks wrong.
type Finding struct {
	Rule  string  `json:"rule"`  // in one word, such as label-offset
	Level string  `json:"level"` // Fault or Hint
	Node  string  `json:"node"`  // what it is about: data, labels, or an input of the model
	Text  string  `json:"text"`
	Fix   string  `json:"fix"`
	Value float64 `json:"value"` // the number that it hinges on
}

// Levels of findings: what makes results wrong, and what to look at.
const (
	Fault = "fault"
	Hint  = "hint"
)

// Rules of what Doctor finds.
const (
	RuleRepeated   = "repeated"
	RuleConstant   = "constant"
	RuleUnlike     = "unlike-training"
	RuleColours    = "channel-order"
	RuleNormalised = "normalisation"
	RuleNotFinite  = "not-finite"
	RuleEmpty      = "empty"
	RuleOutlier    = "outlier"
	RuleUnread     = "unread"
	RuleBranch     = "branch"
)

// fixes say by rule what to do.
var fixes = map[string]string{
	RuleRepeated:  "remove the repeated samples",
	RuleConstant:  "remove these samples, or look at how they are made",
	RuleUnlike:    "--preprocess with what the model was trained with; qwb doctor with --labels tries the presets",
	RuleColours:   "--preprocess with the other channel_order",
	RuleNotFinite: "mend or remove these samples",
	RuleUnread:    "calibrate on samples that read the rest too: ranges behind it are those of what was read",
	RuleBranch: "record samples that take it: ranges behind it are those of the other way; if it never is taken, " +
		"fix what decides it (qwb bind)",
	RuleEmpty:      "record samples in which it has some: no range behind it is known otherwise",
	RuleOutlier:    "look at this sample: its range becomes that of all",
	RuleNormalised: "--preprocess with what the model was trained with; qwb doctor with --labels tries the presets",
}

// NewFinding is a finding with the cure of its rule.
func NewFinding(rule, level, node string, value float64, format string, args ...any) Finding {
	return finding(rule, level, node, value, format, args...)
}

func finding(rule, level, node string, value float64, format string, args ...any) Finding {
	return Finding{Rule: rule, Level: level, Node: node, Text: fmt.Sprintf(format, args...), Fix: fixes[rule], Value: value}
}
