package analysis

// BudgetFigure is a budget's metric on some samples.
type BudgetFigure struct {
	Samples int      `json:"samples"`
	Value   float64  `json:"value"`
	Error   *float64 `json:"error"`           // standard error, paired with float
	Upper   *float64 `json:"upper,omitempty"` // the limit that decides: at most so bad, at the risk taken (for a cosine a lower limit)
	Kind    string   `json:"kind,omitempty"`  // HeldOutUnseen or HeldOutHalf
}

// CostChange is what a plan costs before and after a search.
type CostChange struct {
	What   string `json:"what"` // macs, bytes or time
	Before Cost   `json:"before"`
	After  Cost   `json:"after"`
}

// OnIntegers is where the multiply-accumulates of a network ran before a command and run after it.
type OnIntegers struct {
	MACs   int64 `json:"macs"`   // all, before
	Before int64 `json:"before"` // of them on integers
	After  int64 `json:"after"`
	// Moved are the operators that run in float now and did not before, those that were added included, where there is more work in float.
	Moved []string `json:"moved,omitempty"`
	Words []string `json:"words"` // the same in lines
}

// IntegersAdded is by how much the integers of a profile are worse than the simulation on the same held-out samples, in the budget's terms.
type IntegersAdded struct {
	Profile string   `json:"profile"`
	Samples int      `json:"samples"`
	Value   float64  `json:"value"` // the budget's metric of the integers; of an NSR the plain one, since they do not show what Softmax reads
	More    float64  `json:"more"`  // that and the simulation's, the mean of the differences: above 0 is worse
	Error   *float64 `json:"error"` // its standard error
}
