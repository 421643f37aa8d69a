package reports

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"strings"
)

// Experiment is what was tried with a plan, for trackers of experiments.
type Experiment struct {
	Name string
	Runs []ExperimentRun
}

// ExperimentRun is a state of the plan with what was measured of it. Names of parameters and metrics are words of ASCII, or become such.
type ExperimentRun struct {
	ID      string // 32 hexadecimal digits: the same state has the same
	Name    string
	Params  [][2]string
	Metrics []CardFigure // the error is a metric of its own, NAME_error
}

// MLflow writes an experiment in the file layout of MLflow's tracking store (mlruns), under names relative to its folder, by add. The log
// of a plan has no times: a run has those of its place in the log, in milliseconds, so that the same log gives the same bytes.
func (e *Experiment) MLflow(add func(name string, write func(io.Writer) error) error) error {
	sum := sha256.Sum256([]byte("qwb experiment " + e.Name))
	id := fmt.Sprintf("%018d", binary.BigEndian.Uint64(sum[:])%1e17+1e17)
	file := func(name, text string) error {
		return add(path.Join(id, name), func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
	}
	err := file("meta.yaml", fmt.Sprintf("artifact_location: ./%s\ncreation_time: 0\nexperiment_id: '%s'\nlast_update_time: 0\n"+
		"lifecycle_stage: active\nname: %s\n", id, id, yamlText(e.Name)))
	for i, r := range e.Runs {
		if err != nil {
			return err
		}
		err = r.mlflow(id, i, func(name, text string) error { return file(path.Join(r.ID, name), text) })
	}
	return err
}

func (r *ExperimentRun) mlflow(experiment string, time int, file func(name, text string) error) error {
	err := file("meta.yaml", fmt.Sprintf("artifact_uri: ./%s/%s/artifacts\nend_time: %d\nentry_point_name: ''\nexperiment_id: '%s'\n"+
		"lifecycle_stage: active\nrun_id: %s\nrun_name: %s\nrun_uuid: %s\nsource_name: qwb\nsource_type: 4\nsource_version: ''\n"+
		"start_time: %d\nstatus: 3\ntags: []\nuser_id: qwb\n", experiment, r.ID, time, experiment, r.ID, yamlText(r.Name), r.ID, time))
	write := func(folder, name, text string) {
		if err == nil {
			err = file(path.Join(folder, trackedName(name)), text)
		}
	}
	write("tags", "mlflow.runName", r.Name)
	for _, p := range r.Params {
		write("params", p[0], p[1])
	}
	for _, m := range r.Metrics {
		write("metrics", m.Name, fmt.Sprintf("%d %v 0\n", time, m.Value))
		if m.Error != nil {
			write("metrics", m.Name+"_error", fmt.Sprintf("%d %v 0\n", time, *m.Error))
		}
	}
	return err
}

// trackedName is a name that a tracker takes.
func trackedName(s string) string {
	return strings.Map(func(r rune) rune {
		if isWord(r) || strings.ContainsRune("_-.", r) {
			return r
		}
		return '_'
	}, s)
}

// RunID is the ID of a run by what identifies it.
func RunID(state string) string {
	sum := sha256.Sum256([]byte(state))
	return hex.EncodeToString(sum[:16])
}
