package advise

// Outliers is about ranges that are wider than most of what tensors hold.
var Outliers = &Cause{Name: "outliers",
	Doc:  "a few values far out stretch the range of a tensor: the steps are too coarse for all the others",
	find: func(f *Facts) []Finding { return f.misfits(false) }}
