package overlay

import "strings"

const extension = ".safetensors"

// FileName is where an overlay with a hash stands: PLAN.tuned.HASH8.safetensors, PLAN being the plan's file without .plan.json. What is
// written once is never overwritten: another content has another name.
func FileName(planFile, hash string) string { return stem(planFile) + ".tuned." + hash[:8] + extension }

// Belongs reports whether a file, by its name, is an overlay of a plan; both are in the same folder.
func Belongs(planFile, name string) bool { return between(name, stem(planFile)+".tuned.", extension) }

const statistics = ".stats"

// StatisticsName is where the statistics with a hash stand that were observed of the tensors which an overlay's steps changed:
// PLAN.HASH8.stats.
func StatisticsName(planFile, hash string) string {
	return stem(planFile) + "." + hash[:8] + statistics
}

// StatisticsBelong reports whether a file, by its name, holds such statistics of a plan; both are in the same folder.
func StatisticsBelong(planFile, name string) bool {
	return between(name, stem(planFile)+".", statistics)
}

func stem(planFile string) string { return strings.TrimSuffix(planFile, ".plan.json") }

// between reports whether a name has the eight digits of a hash between a prefix and a suffix.
func between(name, prefix, suffix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	hash, ok2 := strings.CutSuffix(rest, suffix)
	return ok && ok2 && len(hash) == 8 && strings.Trim(hash, "0123456789abcdef") == ""
}
