package simulation

// An Obstacle is what drains meet with any change.
type Obstacle struct {
	Text string
}

func (w *world) obstacles() []Obstacle { return nil }
