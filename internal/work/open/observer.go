package open

import (
	"fmt"
	"strings"

	"qwb/observers"
	"qwb/quantizer/tqc"
)

func observerNames() string {
	var names []string
	for _, m := range observers.All {
		names = append(names, string(m.Name))
	}
	return strings.Join(names, ", ")
}

func CheckObserver(o tqc.Observer) error {
	if o == tqc.ObserverFixed || o.Valid() != nil {
		return fmt.Errorf("unknown observer %q: one of auto, %s, or percentile(0.999)", o, observerNames())
	}
	return nil
}
