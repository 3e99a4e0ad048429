// Package writes holds what sync and plans write to mirrors to this: after every single write, each pull that worked works, and each tag
// names what it named. It has tests only. Worlds are random, and pulls are judged by a model of its own.
package writes
