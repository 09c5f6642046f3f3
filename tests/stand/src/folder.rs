//! A folder that is gone with its owner, at the latest when the next one is made.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::StandError;

const OWNER_LOCK: &str = "owner.lock";

/// A folder of its own under `parent`, removed on drop. A lock file in it says that its owner
/// lives.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _owner: File,
}

impl Folder {
    /// Makes a folder, and removes those whose owners were killed before they could.
    ///
    /// # Errors
    /// [`StandError::File`] with the path that could not be written.
    pub(crate) fn create(parent: &Path) -> Result<Self, StandError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        fs::create_dir_all(parent).map_err(StandError::at(parent))?;
        // Nobody else may sweep between our mkdir and our lock.
        let _making = lock(&parent.join("making.lock"))?;
        sweep(parent);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{}-{number}", std::process::id()));
        fs::create_dir(&path).map_err(StandError::at(&path))?;
        let owner = lock(&path.join(OWNER_LOCK))?;
        Ok(Self { path, _owner: owner })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is swept by the next owner.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Waits for the exclusive lock of a file, which is made if it is missing. Dropping the file gives
/// the lock back.
///
/// # Errors
/// [`StandError::File`].
pub(crate) fn lock(path: &Path) -> Result<File, StandError> {
    let file = open(path).map_err(StandError::at(path))?;
    file.lock().map_err(StandError::at(path))?;
    Ok(file)
}

fn open(path: &Path) -> std::io::Result<File> {
    File::options().create(true).truncate(false).write(true).open(path)
}

/// Removes the folders under `parent` whose lock nobody holds.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let orphaned =
            path.is_dir() && open(&path.join(OWNER_LOCK)).is_ok_and(|file| file.try_lock().is_ok());
        if orphaned {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orphan_is_swept_and_a_living_folder_is_not() {
        let parent = std::env::temp_dir().join(format!("berth-folder-{}", std::process::id()));
        let living = Folder::create(&parent).expect("a folder");
        let orphan = parent.join("orphan");
        fs::create_dir(&orphan).expect("an orphan");

        let second = Folder::create(&parent).expect("a second folder");
        assert!(!orphan.exists());
        assert!(living.path().exists() && second.path().exists());

        let path = living.path().to_path_buf();
        drop(living);
        assert!(!path.exists());
        fs::remove_dir_all(&parent).expect("cleaned up");
    }
}
