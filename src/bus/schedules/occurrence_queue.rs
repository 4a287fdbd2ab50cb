//! The queue of a schedule's occurrences.

use std::sync::Arc;

use crate::bus::inner::Inner;
use crate::bus::queue_handle::QueueHandle;
use crate::bus::schedules::link::Link;
use crate::event::QueueName;

/// The queue of occurrences of a schedule, with the options that are noted for them.
pub(super) fn queue_for(inner: &Arc<Inner>, link: &Link, queue: &QueueName) -> QueueHandle {
    let mut handle = QueueHandle::new(Arc::clone(inner), queue.clone());
    if let Some(noted) = &link.queue_options {
        let options = Arc::make_mut(&mut handle.options);
        options.version = noted.version;
        options.attempts = noted.attempts;
        options.encrypt |= noted.encrypt;
        options.keep_payload = noted.keep_payload;
        options.late = noted.late;
    }
    handle
}

/// Returns whether the link of a schedule is encrypted: if its occurrences are.
pub(super) fn is_secret(inner: &Inner, link: &Link) -> bool {
    let noted = link.queue_options.as_ref();
    noted.is_some_and(|noted| noted.encrypt)
        || inner.options(link.options.queue()).encrypt
        || link.acting().is_some_and(|former| {
            let noted = former.queue_options.as_ref();
            noted.is_some_and(|noted| noted.encrypt)
                || inner.options(former.options.queue()).encrypt
        })
}
