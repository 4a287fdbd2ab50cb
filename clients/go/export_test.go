package duly

// IsStopping is for tests: whether the worker takes no more events.
func (w *Worker) IsStopping() bool { return w.isStopping() }
