package exec

// integerEvals multiply integers.
var integerEvals = []evaluator{}
