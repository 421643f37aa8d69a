// Package qwb is what qwb does, as a library: what the command line, a server, a page in the browser and a program share. A Project is
// a model with its plan and its statistics; its methods are the commands.
//
// The command line has flags, text, exit codes and a terminal, this package has the work: it takes options, returns results, warnings
// and errors, tells an Events what it is doing, and keeps nothing for the whole process, so that projects can be worked on side by side.
package qwb
