//! The threads of a volume: they are started, relieved when a call waits, and ended.

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use iocurve_meter::Clock;
use iocurve_tls::ServerTls;

use super::post::Post;
use super::reactor::Reactor;
use super::threads::Threads;
use crate::served::Served;
use crate::stats::Counters;

/// Pause between two looks at the posts. The others of a thread wait for at most two of them for a call that waits.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// The watcher sleeps after this many looks without a turn.
const IDLE_LOOKS: u32 = 20;

/// Most threads whose calls wait, beyond which no further thread takes over.
const RELIEVED_MAX: usize = 128;

/// Calls that wait may take this long once the volume stops.
const STOP_MAX: Duration = Duration::from_millis(500);

/// Pause between two looks at threads that are to end.
const STOP_PAUSE: Duration = Duration::from_millis(1);

type Handle = JoinHandle<io::Result<()>>;

/// One for all threads, and what each of them needs.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) served: Arc<Served>,
    pub(crate) threads: Arc<Threads>,
    pub(crate) clock: Clock,
    /// Those of each thread; of threads that took over last.
    counters: Mutex<Vec<Arc<Counters>>>,
    /// Counters of threads that have ended.
    spare: Mutex<Vec<Arc<Counters>>>,
    handles: Mutex<Vec<Handle>>,
}

impl Crew {
    pub(crate) fn new(served: Arc<Served>, threads: Arc<Threads>, clock: Clock) -> Self {
        let (counters, spare, handles) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { served, threads, clock, counters, spare, handles }
    }

    /// The counters of all threads, those with a core first.
    pub(crate) fn counters(&self) -> MutexGuard<'_, Vec<Arc<Counters>>> {
        locked(&self.counters)
    }

    /// Starts all threads. The first one accepts connections.
    pub(crate) fn start(self: &Arc<Self>, listener: TcpListener, tls: Option<&ServerTls>) -> io::Result<()> {
        let (mut listener, mut posts) = (Some(listener), Vec::new());
        for own in 0..self.threads.count() {
            let (served, threads) = (Arc::clone(&self.served), Arc::clone(&self.threads));
            let (counters, clock) = (self.new_counters(), self.clock.clone());
            let reactor =
                Reactor::new(served, Arc::clone(&counters), threads, own, listener.take(), tls.cloned(), clock)?;
            posts.push(reactor.post());
            self.spawn(format!("volume-{own}"), move |crew| crew.run(reactor, counters))?;
        }
        if self.threads.has_further() {
            self.spawn("watcher".to_owned(), move |crew| {
                crew.watch(&posts);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn new_counters(&self) -> Arc<Counters> {
        let new = Arc::new(Counters::new(self.served.exports.iter().len()));
        self.counters().push(Arc::clone(&new));
        new
    }

    fn spawn(
        self: &Arc<Self>,
        name: String,
        run: impl FnOnce(&Arc<Self>) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let crew = Arc::clone(self);
        let handle = thread::Builder::new().name(name).spawn(move || run(&crew))?;
        locked(&self.handles).push(handle);
        Ok(())
    }

    fn run(&self, reactor: Reactor, counters: Arc<Counters>) -> io::Result<()> {
        if reactor.run()? {
            locked(&self.spare).push(counters);
        }
        Ok(())
    }

    /// Looks for calls that wait until the volume stops.
    fn watch(self: &Arc<Self>, posts: &[Arc<Post>]) {
        let (mut turns, mut idle) = (vec![0; posts.len()], 0);
        while !self.threads.is_stopping() {
            let mut is_idle = true;
            for (post, turn) in posts.iter().zip(&mut turns) {
                if post.is_stuck(*turn) {
                    self.relieve(post, *turn);
                }
                let (is_between, now) = post.turn();
                is_idle &= is_between && now == *turn;
                *turn = now;
            }
            idle = if is_idle { idle + 1 } else { 0 };
            if idle <= IDLE_LOOKS {
                thread::sleep(LOOK_PAUSE);
                continue;
            }
            idle = 0;
            self.threads.watcher_sleeps(true);
            // A turn that has begun before is seen now; a later one wakes this thread.
            if posts.iter().all(|post| post.turn().0) && !self.threads.is_stopping() {
                thread::park();
            }
            self.threads.watcher_sleeps(false);
        }
    }

    /// Starts a thread in place of one whose call waits. Without one, the others of the post wait, too, until the next look.
    fn relieve(self: &Arc<Self>, post: &Arc<Post>, turn: u64) {
        {
            let mut handles = locked(&self.handles);
            handles.retain(|handle| !handle.is_finished());
            if handles.len() > self.threads.count() + RELIEVED_MAX {
                return;
            }
        }
        let post = Arc::clone(post);
        let _ = self.spawn(format!("volume-{}", post.own), move |crew| {
            let Some(taken) = post.take_over(turn) else { return Ok(()) };
            let counters = locked(&crew.spare).pop().unwrap_or_else(|| crew.new_counters());
            let (served, threads) = (Arc::clone(&crew.served), Arc::clone(&crew.threads));
            let reactor = Reactor::in_place_of(post, taken, served, Arc::clone(&counters), threads, crew.clock.clone());
            crew.run(reactor, counters)
        });
    }

    /// Ends the threads; one whose call waits ends with it. Fails if a thread had failed before.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.threads.stop();
        let (mut ended, until) = (Ok(()), Instant::now() + STOP_MAX);
        loop {
            let Some(handle) = locked(&self.handles).pop() else { return ended };
            while self.threads.has_further() && !handle.is_finished() && Instant::now() < until {
                thread::sleep(STOP_PAUSE);
            }
            if handle.is_finished() || !self.threads.has_further() {
                let result = handle.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")));
                ended = ended.and(result);
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
