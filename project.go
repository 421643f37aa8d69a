package qwb

import (
	"qwb/internal/work/open"
)

// Project is a model with its plan and its statistics, and what may be done with them: each method is one command. A method touches
// nothing but the files of the store and what the catalog offers, so that projects can be worked on side by side in one process. A
// project may be copied; one that is worked on must not be changed.
type Project struct {
	// Model is the model's file, or the file or folder of a language model's checkpoint. What has a plan takes the model that the plan
	// names.
	Model string
	// Plan is the plan's file. Its name ends in PlanSuffix.
	Plan string
	// Stats is the file of the statistics; empty: beside the plan, as StatsPath names it.
	Stats string
	// Store is where these files are; nil: OS.
	Store Store
	// Events hears of progress and warnings while a method works; nil: nobody does.
	Events Events
	// Catalog is what there is to work with.
	Catalog Catalog
}

func (p *Project) job() *open.Job { return &open.Job{Project: (*open.Project)(p)} }
