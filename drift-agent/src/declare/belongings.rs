//! What may be in an exhaustive directory because a policy declares it there.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Declared, Target, through::places};
use crate::heal::temporary_name;

/// Tells each exhaustive directory what belongs into it, whichever policy declares that: declared paths, by where they really are, and the links on
/// their ways.
pub(super) fn belongings(files: &mut [Arc<Declared>]) {
    let is_exhaustive = |file: &Arc<Declared>| matches!(file.target, Target::Directory(Some(_)));
    if !files.iter().any(is_exhaustive) {
        return;
    }
    let places = places(files).into_iter().map(Path::to_owned);
    let places: Vec<PathBuf> = places.collect();
    for directory in files.iter_mut().filter_map(Arc::get_mut) {
        let real = directory.real().to_owned();
        let Target::Directory(Some(exhaustive)) = &mut directory.target else {
            continue;
        };
        // What is beneath a path comes right after it.
        let beneath = &places[places.partition_point(|place| *place <= real)..];
        for place in beneath {
            let Ok(beneath) = place.strip_prefix(&real) else {
                break;
            };
            let Some(name) = beneath.iter().next() else {
                continue;
            };
            exhaustive.declared.insert(name.to_owned());
            exhaustive.declared.insert(temporary_name(&real.join(name)));
        }
    }
}
